"""Queue of calls that follow from rows of unfinished sources, until they are dispatched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from hab_ray.catalog.prices import Mode
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import Dispatch, Spool
from hab_ray.sweep.routing import Router
from hab_ray.sweep.shards import Shards, ShardStatus

MAX_ONLINE = 20_000
MAX_OPEN = 200
MIN_BATCH = 1000


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
