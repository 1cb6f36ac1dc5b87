"""The reconcile loop: settle shards whose inputs are complete, dispatch open calls, handle events, repeat.

Starting, resuming, collecting after a detach and retrying after an outage all run this same loop: the only state is
the store with its ledger, and the views. The driver sends orders and reads events (see `executors.protocol`); executors
and workers do the work, and the driver knows no executor by name.
"""

from collections.abc import Iterable

from hab_ray.errors import ConfigError
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
    WorkerReplaced,
    Workers,
)
from hab_ray.stages import wiring
from hab_ray.sweep.dispatching import Dispatcher, DriverContext
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.routing import Router
from hab_ray.sweep.shards import Shards, ShardState, ShardStatus
from hab_ray.work import Work

POLL_S = 0.25
MAX_DEATHS = 3
MAX_REPEATS = 2


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
        """Run until nothing more can be done; with `detach`, until only vendors' batches are pending.

        Raises:
            Interrupted: the user stopped the run.
            HabError: an executor cannot continue.
        """
        while True:
            self._dispatcher.dispatch_flowing()
            self._shards.release_finished()
            self._settle(self._context.workers(), self._ready_to_settle())
            self._context.check()
            self._dispatcher.dispatch_ready()
            if not self._is_under_way() or (detach and self._is_parked()):
                return
            self._context.wait(POLL_S)
            self._context.check()
            self._handle_all(self._context.services)
            self._context.keep()
            self._context.report()

    def settle_rest(self, workers: Workers) -> None:
        """Settle the running shards a last time, to update their views, after all executors have ended."""
        self._settle(workers, self._shards.at(ShardStatus.RUNNING))
        while self._shards.at(ShardStatus.SETTLING):
            self._context.wait(POLL_S)
            self._handle_all([workers])

    def _ready_to_settle(self) -> list[ShardState]:
        waiting, shards = self._shards.at(ShardStatus.WAITING), self._shards
        return [state for state in waiting if shards.has_inputs(state) or shards.may_settle_early(state)]

    def _is_under_way(self) -> bool:
        """Whether to wait for events.

        An open online dispatch counts even if its shards are done: it blocks others. So does a batch of this run whose
        results are being collected, even if no shard waits for it: its replies are paid for.
        """
        running = self._shards.at(ShardStatus.SETTLING, ShardStatus.RUNNING, ShardStatus.COMPUTING)
        is_busy = self._dispatcher.is_online_busy or self._counters.is_collecting
        return bool(running) or is_busy or bool(self._ready_to_settle())

    def _is_parked(self) -> bool:
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

    def _handle_all(self, services: Iterable[Service]) -> None:
        for service in services:
            for event in service.poll():
                self.handle(event)

    def handle(self, event: Event) -> None:
        """Update the run's state by an event, and give the orders that follow from it.

        Raises:
            HabError: the run cannot continue.
        """
        match event:
            case CountersRead(channel, counters):
                self._counters.update(channel, counters)
            case CallsSpooled(spools):
                self._dispatcher.queue(spools)
            case ShardSettled():
                self._handle_settled(event)
            case RowsComputed():
                self._handle_computed(event)
            case DispatchEnded(order):
                self._dispatcher.end(order)
            case WorkerReplaced(channel, error):
                self._handle_death(channel, error)
            case ExecutorDied(error):
                raise error
            case ChannelEnded():
                pass

    def _handle_settled(self, settled: ShardSettled) -> None:
        state, order = self._shards.all[settled.settle.number], settled.settle.order
        if state.order != order:
            return self._files.discard(order)
        if settled.view:
            self._files.publish(order, state.shard.file)
        state.handle_settled(settled, self._counters.was_deferred(state))
        _check_repeats(state)
        if settled.spool is None:
            self._files.discard(order)
        if state.status is ShardStatus.COMPUTING:
            state.order = self._next_order()
            self._context.workers().compute(Compute(state.order, state.number, state.shard))

    def _handle_computed(self, computed: RowsComputed) -> None:
        """Publish computed rows, which freezes them: chosen tests are never chosen again, unless there are none."""
        state, order = self._shards.all[computed.compute.number], computed.compute.order
        if state.order == order:
            self._files.publish(order, state.shard.file)
            state.total = computed.rows
            if computed.rows or not state.shard.spec.is_frozen:
                self._context.chosen(state.shard)
                state.status = ShardStatus.COMPLETE
            else:
                state.status = ShardStatus.STALLED
            if computed.note:
                self._counters.notes.append(f"{state.shard.dimension}: {computed.note}")
        self._files.discard(order)

    def _handle_death(self, channel: Channel, error: Exception) -> None:
        """Continue with a dead worker's replacement; raise after `MAX_DEATHS` deaths without a finished row."""
        finished = self._counters.of(channel).finished.total()
        deaths, finished_before = self._deaths.get(channel, (0, 0))
        deaths = 1 if finished > finished_before else deaths + 1
        if deaths > MAX_DEATHS:
            raise error
        self._deaths[channel] = deaths, finished
        self._counters.notes.append(
            f"a worker that calls {channel.provider} died and was replaced; calls that it had sent but not stored are "
            "sent again and may be charged twice"
        )


def _check_repeats(state: ShardState) -> None:
    """Stop an added stage that would be paid for again and again.

    Raises:
        ConfigError: it has asked for other calls each time, although all that it had asked for were answered.
    """
    stage = state.shard.stage
    if state.repeats > MAX_REPEATS and (package := wiring.packages().get(stage)):
        raise ConfigError(
            f"the package {package}, which adds the stage {stage!r}, is broken: the stage's `requests` does not return "
            f"the same calls for the same rows. All its calls were answered {state.repeats} times, and each time it "
            f"asked for {state.first_asks} others (a time or a random number in the prompt does that). Update, repair "
            "or uninstall it. What the run has stored is kept"
        )
