"""The reconcile loop: settle what has its inputs, dispatch what is open, take in what happened, again.

Start, resume, collect after a detach and retry after an outage are this loop run again: nothing is kept but the store,
the ledger in it, and the views. The driver hands out orders and reads events (see `executors.protocol`). It does no
work of its own and knows no executor by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from hab_ray.executors.protocol import (
    CallsSpooled,
    Channel,
    ChannelEnded,
    Compute,
    CountersRead,
    DispatchEnded,
    Event,
    ExecutorDied,
    RowsComputed,
    Service,
    Settle,
    ShardSettled,
    SpoolsRead,
    WorkerReplaced,
    Workers,
)
from hab_ray.sweep.context import DriverContext
from hab_ray.sweep.dispatching import Dispatcher
from hab_ray.sweep.routing import Router
from hab_ray.sweep.shards import Shards, ShardState, ShardStatus
from hab_ray.sweep.telling.counters import RunCounters
from hab_ray.work import Work

POLL_S = 0.25
MAX_DEATHS = 3


class Driver:
    """Drives the shards of one run."""

    def __init__(
        self, work: Work, shards: Shards, counters: RunCounters, router: Router, context: DriverContext
    ) -> None:
        self._shards, self._counters = shards, counters
        self._context, self._files = context, context.files
        self._orders = 0
        self._dispatcher = Dispatcher(work, shards, counters, router, context, self._next_order)
        self._deaths: dict[Channel, tuple[int, int]] = {}

    def reconcile(self, detach: bool) -> None:
        """Bring the run as far as it goes; with `detach` until only vendors' batches are waited for.

        Raises:
            Interrupted: the user stops the run.
            HabError: an executor cannot go on.
        """
        while True:
            self._dispatcher.dispatch_flowing()
            self._shards.let_go()
            self._settle(self._context.workers(), self._ready_to_settle())
            self._context.check()
            self._dispatcher.dispatch_ready()
            if not self._is_under_way() or (detach and self._is_parked()):
                return
            self._context.wait(POLL_S)
            self._context.check()
            self._take_in_all(self._context.services)
            self._context.keep()
            self._context.report()

    def settle_rest(self, workers: Workers) -> None:
        """Bring the views of shards under way up to date, after all executors have ended."""
        self._settle(workers, self._shards.at(ShardStatus.RUNNING))
        while self._shards.at(ShardStatus.SETTLING):
            self._context.wait(POLL_S)
            self._take_in_all([workers])

    def _ready_to_settle(self) -> list[ShardState]:
        waiting, shards = self._shards.at(ShardStatus.WAITING), self._shards
        return [state for state in waiting if shards.has_inputs(state) or shards.may_settle_early(state)]

    def _is_under_way(self) -> bool:
        """Whether something will end; a dispatch whose shards are all done still keeps others of its kind waiting."""
        running = self._shards.at(ShardStatus.SETTLING, ShardStatus.RUNNING, ShardStatus.COMPUTING)
        return bool(running) or self._dispatcher.is_online_busy or bool(self._ready_to_settle())

    def _is_parked(self) -> bool:
        """Whether nothing is left to do but to wait for the vendors."""
        busy = self._shards.at(ShardStatus.SETTLING, ShardStatus.COMPUTING) or self._dispatcher.is_online_busy
        return not busy and all(executor.is_parked for executor in self._context.executors.values())

    def _settle(self, workers: Workers, states: Iterable[ShardState]) -> None:
        for state in states:
            order = self._next_order()
            workers.settle(Settle(order, state.number, state.shard, frozenset(state.given_up)))
            state.settle(order, is_early=not self._shards.has_inputs(state))

    def _next_order(self) -> int:
        self._orders += 1
        return self._orders

    def _take_in_all(self, services: Iterable[Service]) -> None:
        for service in services:
            for event in service.poll():
                self.take_in(event)

    def take_in(self, event: Event) -> None:
        """Draw the consequences of what happened.

        Raises:
            HabError: the run cannot go on.
        """
        match event:
            case CountersRead(channel, counters):
                self._counters.take_in(channel, counters)
            case CallsSpooled(spools):
                self._dispatcher.take_in(spools)
            case ShardSettled():
                self._take_in_settled(event)
            case RowsComputed():
                self._take_in_computed(event)
            case SpoolsRead(order):
                self._dispatcher.discard_spools(order)
            case DispatchEnded(order):
                self._dispatcher.end(order)
            case WorkerReplaced(channel, error):
                self._take_in_death(channel, error)
            case ExecutorDied(error):
                raise error
            case ChannelEnded():
                pass

    def _take_in_settled(self, found: ShardSettled) -> None:
        state = self._shards.all[found.settle.number]
        if state.order != found.settle.order:
            return self._files.discard(found.settle.order)
        if found.view:
            self._files.publish(found.settle.order, state.shard.file)
        state.take_in(found, self._counters.was_deferred(state))
        if found.spool is None:
            self._files.discard(found.settle.order)
        if state.status is ShardStatus.COMPUTING:
            state.order = self._next_order()
            self._context.workers().compute(Compute(state.order, state.number, state.shard))

    def _take_in_computed(self, made: RowsComputed) -> None:
        """Freeze what was computed, and say so: chosen tests are never chosen again."""
        state = self._shards.all[made.compute.number]
        if state.order == made.compute.order:
            self._files.publish(made.compute.order, state.shard.file)
            self._context.chosen(state.shard)
            state.status, state.total = ShardStatus.COMPLETE, made.rows
            if made.note:
                self._counters.notes.append(f"{state.shard.dimension}: {made.note}")
        self._files.discard(made.compute.order)

    def _take_in_death(self, channel: Channel, error: Exception) -> None:
        """A worker died: go on with the one in its place, unless that happens again and again and nothing gets done."""
        finished = self._counters.of(channel).finished.total()
        deaths, finished_then = self._deaths.get(channel, (0, 0))
        deaths = 1 if finished > finished_then else deaths + 1
        if deaths > MAX_DEATHS:
            raise error
        self._deaths[channel] = deaths, finished
        self._counters.notes.append(
            f"a worker that calls {channel.provider} died and another took its place; what it had sent and not yet "
            "stored is asked again and may be charged twice"
        )
