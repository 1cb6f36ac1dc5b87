"""Decides how the open calls of a shard are sent: online, by batch, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hab_ray.catalog.prices import Mode
from hab_ray.executors.protocol import Spool
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.shards import Shards, ShardState
from hab_ray.work import Work, wants_batch

MAX_EMPTY_ROUNDS = 3


@dataclass(frozen=True)
class Route:
    """How a shard's calls are sent; `refusal` says why they are not."""

    mode: Mode
    refusal: str | None = None


@dataclass(frozen=True)
class Router:
    """The routing rules of one run.

    `is_in_batch` says whether any call of a spool is in an open batch, or was answered by one since the spool was
    written. After `deadline` nothing is sent by batch; `now` returns wall time in UTC.
    """

    work: Work
    shards: Shards
    counters: RunCounters
    is_in_batch: Callable[[Spool], bool]
    deadline: datetime | None
    now: Callable[[], datetime]

    def route(self, state: ShardState, spool: Spool) -> Route:
        """Route a shard's open calls; calls in a batch stay with that batch."""
        if self.is_in_batch(spool):
            return Route(Mode.BATCH, self._stop_reason(state))
        return self.route_unsent(state)

    def route_unsent(self, state: ShardState) -> Route:
        """Route calls of a shard that are in no open batch.

        `auto` chooses by the calls that the stage and model have left, and sends online what a batch would refuse.
        """
        stop_reason = self._stop_reason(state)
        if not wants_batch(self.work, state.shard, self.shards.calls_to_come(state)):
            return Route(Mode.ONLINE, stop_reason)
        refusal = self._batch_refusal(state)
        if refusal and self.work.mode(state.shard) == "auto":
            return Route(Mode.ONLINE, stop_reason)
        return Route(Mode.BATCH, stop_reason or refusal)

    def _stop_reason(self, state: ShardState) -> str | None:
        model = self.work.model(state.shard)
        stops = self.counters.of_batches(model.entry.provider).stops
        return stops.get(model.name) or stops.get("")

    def _batch_refusal(self, state: ShardState) -> str | None:
        model = self.work.model(state.shard)
        if refused := self.counters.of_batches(model.entry.provider).why_refused(model.name):
            return f"{model.name} cannot be asked by batch: {refused}; give it `mode: auto` or `mode: online`"
        if self.deadline is not None and self.now() >= self.deadline:
            return "the deadline has passed; give `mode: auto` or a later `deadline:`"
        if state.empty_rounds >= MAX_EMPTY_ROUNDS:
            return f"{MAX_EMPTY_ROUNDS} batches in a row returned no answer"
        return None
