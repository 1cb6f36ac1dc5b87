"""Gathers, routes and dispatches the open calls of shards, and tracks open dispatches."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate

from hab_ray.catalog.prices import Mode
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import Channel, Dispatch, Executor, Feed, Service, Spool, Workers
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.routing import Router
from hab_ray.sweep.shards import Shards, ShardState, ShardStatus
from hab_ray.work import Shard, Work

GATHER_S, GATHER_BATCH_S = 3.0, 60.0
MAX_ONLINE = 20_000
MAX_OPEN = 200
MIN_BATCH = 1000


@dataclass(frozen=True)
class DriverContext:
    """Dependencies of the driver.

    `workers` returns the workers that settle and compute now; `services` are all sources of events. `clock` returns
    monotonic seconds; `wait` sleeps for the given seconds or until a service has an event. `check` raises Interrupted
    once the user stops the run and LeaseLost once another driver holds the store. `keep` stores the possible cost of
    calls without an answer. `chosen` is called for each computed and published shard, before its readers are
    dispatched. `report` shows progress.
    """

    executors: Mapping[Mode, Executor]
    workers: Callable[[], Workers]
    services: Sequence[Service]
    files: Pending
    clock: Callable[[], float]
    wait: Callable[[float], None]
    check: Callable[[], None]
    keep: Callable[[], None]
    chosen: Callable[[Shard], None]
    report: Callable[[], None]


class Dispatcher:
    """Dispatches the calls of one run. `next_order` returns the number of a new dispatch."""

    def __init__(
        self,
        work: Work,
        shards: Shards,
        counters: RunCounters,
        router: Router,
        context: DriverContext,
        next_order: Callable[[], int],
    ) -> None:
        self._work, self._shards, self._counters, self._router = work, shards, counters, router
        self._context, self._files, self._next_order = context, context.files, next_order
        self._open: dict[int, tuple[Dispatch, Channel]] = {}
        self._flowing = SpoolQueue(shards, router, context.files)

    @property
    def is_online_busy(self) -> bool:
        """Whether an online dispatch is open."""
        return any(channel.mode is Mode.ONLINE for _, channel in self._open.values())

    def queue(self, spools: Iterable[Spool]) -> None:
        """Queue calls that follow from rows of unfinished sources."""
        for spool in spools:
            self._flowing.add(spool)

    def dispatch_flowing(self) -> None:
        """Dispatch the queued calls that may be sent now."""
        for mode, spools in self._flowing.ready(self._open_flowing):
            self._start(mode, spools, (), is_flowing=True)

    def _open_flowing(self, route: RouteKey) -> list[Dispatch]:
        flowing = [dispatch for dispatch, _ in self._open.values() if dispatch.is_flowing]
        return [d for d in flowing if (d.stage, d.provider) == (route.stage, route.provider)]

    def dispatch_ready(self) -> None:
        """Start one dispatch per stage and model by batch, and one per stage and provider online unless one is open."""
        busy = {
            (dispatch.stage, dispatch.provider)
            for dispatch, channel in self._open.values()
            if channel.mode is Mode.ONLINE and not dispatch.is_flowing
        }
        ready: dict[tuple[Mode, str, str], list[tuple[ShardState, Spool]]] = defaultdict(list)
        for state, spool, mode in self._routed():
            if mode is Mode.BATCH:
                ready[mode, spool.stage, spool.model].append((state, spool))
            elif (spool.stage, spool.provider) not in busy:
                ready[mode, spool.stage, spool.provider].append((state, spool))
        for (mode, _, _), together in sorted(ready.items(), key=lambda group: group[0][0] is Mode.ONLINE):
            feeds = (self._shards.feed(state) for state, _ in together if mode is Mode.ONLINE)
            spools = [spool for _, spool in together]
            self._start(mode, spools, tuple(feed for feed in feeds if feed), is_flowing=False)

    def _routed(self) -> Iterable[tuple[ShardState, Spool, Mode]]:
        """Yield the shards whose calls may be sent now, with their mode; give up calls that may not be sent at all."""
        groups: dict[tuple[str, str], list[ShardState]] = defaultdict(list)
        for state in self._shards.at(ShardStatus.READY):
            groups[state.shard.stage, self._work.model(state.shard).name].append(state)
        for state in [state for group in groups.values() if self._is_gathered(group) for state in group]:
            if state.spool is None:
                continue
            spool = state.spool
            if state.mode is None:
                route = self._router.route(state, spool)
                if route.refusal:
                    state.give_up(self._files.row_ids(spool), route.refusal)
                    self._files.remove(spool)
                    continue
                state.mode = route.mode
                if route.held:
                    spool = self._set_apart(state, spool, route.held)
            if state.is_early and state.mode is Mode.BATCH and (state.open < MIN_BATCH or self._is_online(state)):
                state.defer()
                self._files.remove(spool)
                continue
            yield state, spool, state.mode

    def _set_apart(self, state: ShardState, spool: Spool, held: Set[str]) -> Spool:
        """Return the calls of a shard to send online now; if all of them are in batches, wait for these batches.

        The next settling finds those in batches again.
        """
        rest = self._files.without(spool, held)
        if rest is None:
            state.mode = Mode.BATCH
            return spool
        self._files.remove(spool)
        state.spool = rest
        return rest

    def _is_gathered(self, group: Sequence[ShardState]) -> bool:
        """Whether to dispatch now: no more shards will be ready soon, or the first has waited long enough.

        Batches wait longer for shards that are being settled: calls dispatched together are sampled together.
        """
        now, first = self._context.clock(), group[0]
        for state in group:
            state.ready_since = min(state.ready_since, now)
        waited_s = now - min(state.ready_since for state in group)
        if waited_s < GATHER_S:
            return not self._shards.is_more_coming(first.shard.stage)
        return waited_s >= GATHER_BATCH_S or not self._is_settling(first) or self._is_online(first)

    def _is_settling(self, like: ShardState) -> bool:
        stage, model = like.shard.stage, self._work.model(like.shard).name
        settling = (state.shard for state in self._shards.at(ShardStatus.SETTLING))
        return any(shard.stage == stage and self._work.model(shard).name == model for shard in settling)

    def _is_online(self, state: ShardState) -> bool:
        return self._router.route_unsent(state).mode is Mode.ONLINE

    def _start(self, mode: Mode, spools: Sequence[Spool], feeds: tuple[Feed, ...], is_flowing: bool) -> None:
        first, order = spools[0], self._next_order()
        dispatch = Dispatch(order, first.stage, first.provider, first.model, tuple(spools), feeds, is_flowing)
        channel = self._context.executors[mode].start(dispatch)
        self._open[order] = dispatch, channel
        for number, calls in sum((Counter(spool.calls) for spool in spools), Counter()).items():
            self._shards.all[number].start(order, channel, calls, self._counters.of(channel))

    def end(self, order: int) -> None:
        """Close a dispatch and delete its spools. Shards wait for its calls until then, or for their batches to end."""
        dispatch, channel = self._open.pop(order)
        for spool in dispatch.spools:
            self._files.remove(spool)
            for number in spool.calls if channel.mode is Mode.ONLINE else ():
                self._shards.all[number].dispatches.discard(order)


@dataclass(frozen=True)
class RouteKey:
    """The mode, stage and model that queued calls are grouped by."""

    mode: Mode
    stage: str
    provider: str
    model: str


class SpoolQueue:
    """Spools that wait to be dispatched.

    Online spools are dispatched at once, up to `MAX_ONLINE` calls and `MAX_OPEN` dispatches per stage and provider,
    because the executor does not limit them. Batch spools wait until they hold `MIN_BATCH` calls. Settling a shard
    finds its queued calls again, so dropping a spool costs time and never a row.
    """

    def __init__(self, shards: Shards, router: Router, files: Pending) -> None:
        self._shards, self._router, self._files = shards, router, files
        self._waiting: dict[RouteKey, list[Spool]] = defaultdict(list)

    def add(self, spool: Spool) -> None:
        """Queue the calls of a spool whose shards accept flowing rows and share one mode."""
        accepted: list[int] = []
        modes: set[Mode] = set()
        if not self._router.held(spool):
            for state in (self._shards.all[number] for number in spool.calls):
                route = self._router.route_unsent(state)
                mode = state.mode or route.mode
                if self._shards.accepts_flow(state) and not route.refusal and modes <= {mode}:
                    if state.status is not ShardStatus.READY:  # its own calls, perhaps in an open batch, decide first
                        state.mode = mode
                    modes.add(mode)
                    accepted.append(state.number)
        if not accepted:
            return self._files.remove(spool)
        route_key = RouteKey(modes.pop(), spool.stage, spool.provider, spool.model)
        self._waiting[route_key].append(replace(spool, calls={number: spool.calls[number] for number in accepted}))

    def ready(self, open_on: Callable[[RouteKey], Sequence[Dispatch]]) -> Iterator[tuple[Mode, Sequence[Spool]]]:
        """Remove and yield the spools to dispatch now; `open_on` returns the open flowing dispatches of a route."""
        for route, waiting in self._waiting.items():
            self._drop_settled(waiting)
            sendable = [spool for spool in waiting if self._is_sendable(route, spool)]
            if route.mode is Mode.BATCH:
                taken = sendable if sum(spool.total for spool in sendable) >= MIN_BATCH else []
            else:
                room, before = _room(open_on(route)), accumulate((spool.total for spool in sendable), initial=0)
                taken = [spool for spool, calls in zip(sendable, before, strict=False) if calls < room]
            if taken:
                self._waiting[route] = [spool for spool in waiting if spool not in taken]
                yield route.mode, taken

    def _drop_settled(self, waiting: list[Spool]) -> None:
        for spool in list(waiting):
            if not all(self._shards.accepts_flow(self._shards.all[number]) for number in spool.calls):
                waiting.remove(spool)
                self._files.remove(spool)

    def _is_sendable(self, route: RouteKey, spool: Spool) -> bool:
        states = [self._shards.all[number] for number in spool.calls]
        return all(self._shards.may_send_flow(state) and state.mode in (None, route.mode) for state in states)


def _room(dispatches: Sequence[Dispatch]) -> int:
    if len(dispatches) >= MAX_OPEN:
        return 0
    return MAX_ONLINE - sum(spool.total for dispatch in dispatches for spool in dispatch.spools)
