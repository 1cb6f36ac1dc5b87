"""Decides how the open calls of a shard go out: online, by batch, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hab_ray.catalog.prices import Mode
from hab_ray.executors.protocol import Spool
from hab_ray.sweep.shards import Shards, ShardState
from hab_ray.sweep.telling.counters import RunCounters
from hab_ray.work import Work, wants_batch

MAX_EMPTY_ROUNDS = 3


@dataclass(frozen=True)
class Route:
    """How a shard's calls go out; `refusal` says why they do not."""

    mode: Mode
    refusal: str | None = None


@dataclass(frozen=True)
class Router:
    """The rules of one run. `is_in_batch` says whether a spool has a call that is in an open batch.

    From `deadline` on nothing is sent by batch; `now` is wall time in UTC.
    """

    work: Work
    shards: Shards
    counters: RunCounters
    is_in_batch: Callable[[Spool], bool]
    deadline: datetime | None
    now: Callable[[], datetime]

    def route(self, state: ShardState, spool: Spool) -> Route:
        """How a shard's open calls go out.

        A call in an open batch is waited for there.
        """
        if self.is_in_batch(spool):
            return Route(Mode.BATCH, self._stopped(state))
        return self.fresh(state)

    def fresh(self, state: ShardState) -> Route:
        """How calls of a shard go out that are in no open batch.

        `auto` counts the calls that the stage and model have left, and sends online what may not go by batch.
        """
        way = self._way(state)
        return Route(way.mode, self._stopped(state) or way.refusal)

    def _stopped(self, state: ShardState) -> str | None:
        """Why nothing more is sent to a shard's model."""
        model = self.work.model(state.shard)
        stops = self.counters.of_batches(model.entry.provider).stops
        return stops.get(model.name) or stops.get("")

    def _way(self, state: ShardState) -> Route:
        if not wants_batch(self.work, state.shard, self.shards.calls_to_come(state)):
            return Route(Mode.ONLINE)
        refusal = self._why_not_by_batch(state)
        if refusal and self.work.mode(state.shard) == "auto":
            return Route(Mode.ONLINE)
        return Route(Mode.BATCH, refusal)

    def _why_not_by_batch(self, state: ShardState) -> str | None:
        model = self.work.model(state.shard)
        if refused := self.counters.of_batches(model.entry.provider).why_refused(model.name):
            return f"{model.name} cannot be asked by batch: {refused}; give it `mode: auto` or `mode: online`"
        if self.deadline is not None and self.now() >= self.deadline:
            return "the deadline has passed; give `mode: auto` or a later `deadline:`"
        if state.empty_rounds >= MAX_EMPTY_ROUNDS:
            return f"{MAX_EMPTY_ROUNDS} batches in a row brought no answer"
        return None
