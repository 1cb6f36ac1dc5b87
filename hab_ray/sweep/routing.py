"""Decides how the open calls of a shard are sent: online, by batch, or not at all."""

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from datetime import datetime

from hab_ray.catalog.prices import Mode
from hab_ray.executors.protocol import Spool
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.shards import Shards, ShardState
from hab_ray.work import Work, wants_batch

MAX_EMPTY_ROUNDS = 3


@dataclass(frozen=True)
class Route:
    """How a shard's calls are sent, but for those with `held` keys; `refusal` says why they are not."""

    mode: Mode
    refusal: str | None = None
    held: Set[str] = frozenset()


@dataclass(frozen=True)
class Router:
    """The routing rules of one run.

    `held` returns the keys of a spool's calls that are in an open batch, or answered by one since the spool was
    written. After `deadline` nothing is sent by batch; `now` returns wall time in UTC.
    """

    work: Work
    shards: Shards
    counters: RunCounters
    held: Callable[[Spool], Set[str]]
    deadline: datetime | None
    now: Callable[[], datetime]

    def route(self, state: ShardState, spool: Spool) -> Route:
        """Route a shard's open calls; those in a batch stay with that batch, and others may go online before."""
        held, unsent = self.held(spool), self.route_unsent(state)
        if held and unsent.mode is Mode.BATCH:
            return Route(Mode.BATCH, self._stop_reason(state))
        return replace(unsent, held=held)

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
