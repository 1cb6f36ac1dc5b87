"""Calls that followed from rows of sources under way, until they are dispatched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from hab_ray.catalog.prices import Mode
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import Dispatch, Spool
from hab_ray.sweep.routing import Router
from hab_ray.sweep.shards import Shards

MAX_ONLINE = 20_000
MAX_OPEN = 200
LEAST_BATCH = 1000


@dataclass(frozen=True)
class RouteKey:
    """How calls go out, and for which stage and model."""

    mode: Mode
    stage: str
    provider: str
    model: str


class SpoolQueue:
    """Spools that wait to be dispatched.

    Online they go at once, but the executor, which has no bound of its own for them, gets at most `MAX_ONLINE` calls
    and `MAX_OPEN` dispatches of a stage and provider. By batch they go when they are worth one. What still waits when
    its shard is settled again is found by settling, so dropping a spool costs time and never a row.
    """

    def __init__(self, shards: Shards, router: Router, files: Pending) -> None:
        self._shards, self._router, self._files = shards, router, files
        self._waiting: dict[RouteKey, list[Spool]] = defaultdict(list)

    def take_in(self, spool: Spool) -> None:
        """Have the calls of a spool wait, as far as their shards take rows that flow and go out the same way."""
        accepted: list[int] = []
        modes: set[Mode] = set()
        if not self._router.is_in_batch(spool):
            for state in (self._shards.all[number] for number in spool.calls):
                route = self._router.fresh(state)
                mode = state.mode or route.mode
                if self._shards.takes_rows(state) and not route.refusal and modes <= {mode}:
                    state.mode = mode
                    modes.add(mode)
                    accepted.append(state.number)
        if not accepted:
            return self._files.remove(spool)
        way = RouteKey(modes.pop(), spool.stage, spool.provider, spool.model)
        self._waiting[way].append(replace(spool, calls={number: spool.calls[number] for number in accepted}))

    def ready(self, open_on: Callable[[RouteKey], Sequence[Dispatch]]) -> Iterator[tuple[Mode, Sequence[Spool]]]:
        """The spools that go out now; `open_on` names the dispatches that flowed this way and are not through."""
        for way, waiting in self._waiting.items():
            self._drop_settled(waiting)
            sendable = [spool for spool in waiting if self._is_sendable(way, spool)]
            if way.mode is Mode.BATCH:
                taken = sendable if sum(spool.total for spool in sendable) >= LEAST_BATCH else []
            else:
                taken = _first(sendable, _room(open_on(way)))
            if taken:
                self._waiting[way] = [spool for spool in waiting if spool not in taken]
                yield way.mode, taken

    def _drop_settled(self, waiting: list[Spool]) -> None:
        for spool in list(waiting):
            if not all(self._shards.takes_rows(self._shards.all[number]) for number in spool.calls):
                waiting.remove(spool)
                self._files.remove(spool)

    def _is_sendable(self, way: RouteKey, spool: Spool) -> bool:
        """Whether no shard of a spool is just being settled early."""
        states = [self._shards.all[number] for number in spool.calls]
        return all(self._shards.sends_rows(state) and state.mode in (None, way.mode) for state in states)


def _room(dispatches: Sequence[Dispatch]) -> int:
    """How many calls an executor takes beside these dispatches."""
    if len(dispatches) >= MAX_OPEN:
        return 0
    return MAX_ONLINE - sum(spool.total for dispatch in dispatches for spool in dispatch.spools)


def _first(spools: Sequence[Spool], room: int) -> list[Spool]:
    taken: list[Spool] = []
    for spool in spools:
        if room <= 0:
            break
        taken.append(spool)
        room -= spool.total
    return taken
