"""A call waits for its connection while the lease ends: it is not sent, and costs nothing."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hab_ray.errors import LeaseLost, LeaseStale
from hab_simulator import Profile, simulator
from tests.engine.bench import PLACES, Bench, HeldLease, budget_of, chat, engine_at, jobs, seen_by, stream

CALLS = 5
MAX_S = 20.0


class SlowNames:
    """Names that are resolved once `go_on` is called; `asked` counts the attempts."""

    def __init__(self) -> None:
        self.asked = 0
        self._may = threading.Event()
        self._resolve = socket.getaddrinfo

    def resolve(self, *query: Any, **more: Any) -> Any:
        """As socket.getaddrinfo."""
        self.asked += 1
        self._may.wait(MAX_S)
        return self._resolve(*query, **more)

    def go_on(self) -> None:
        """Let all names be resolved, now and from now on."""
        self._may.set()

    async def waiting(self) -> None:
        """Wait until a request waits for its connection."""
        async with asyncio.timeout(MAX_S):
            while not self.asked:
                await asyncio.sleep(0.005)


@contextmanager
def slow_names() -> Iterator[SlowNames]:
    """All names of this process are slow."""
    names = SlowNames()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", names.resolve)
        try:
            yield names
        finally:
            names.go_on()


def by_name(url: str) -> str:
    """The URL of a local server by the name of the host, which must be resolved."""
    return url.replace("127.0.0.1", "localhost")


@dataclass
class Waiting:
    """An engine whose calls wait for their connections, and its lease."""

    bench: Bench
    names: SlowNames
    url: str
    lease: HeldLease

    async def requests(self) -> int:
        return len(await seen_by(self.url, "_requests"))


@asynccontextmanager
async def waiting(kind: str, folder: Path) -> AsyncIterator[Waiting]:
    lease = HeldLease()
    async with simulator(Profile.model_validate({})) as url:
        with slow_names() as names:
            async with engine_at(by_name(url), folder, "a", kind=kind, lease=lease, budget=budget_of(10**9)) as b:
                yield Waiting(b, names, url, lease)


@pytest.mark.parametrize("kind", PLACES)
async def test_a_lost_lease_keeps_calls_back_that_wait_for_their_connections(kind: str, tmp_path: Path) -> None:
    async with waiting(kind, tmp_path) as w:
        engine = w.bench.engine
        with pytest.raises(LeaseLost, match="taken over"):
            async with engine:
                work = asyncio.create_task(engine.complete(stream(jobs(chat("a", f"{n}") for n in range(CALLS)))))
                await w.names.waiting()
                w.lease.problem = LeaseLost("taken over")
                w.names.go_on()
                await work
        counted = engine.snapshot()
        assert await w.requests() == 0
        assert (counted.calls, counted.traffic["a"].sent, counted.in_flight["a"]) == (0, 0, 0)
        assert (counted.spent_nanousd, counted.reserved_nanousd, counted.lost_nanousd, counted.cut_nanousd) == (0,) * 4
        assert not w.bench.stored("a")


@pytest.mark.parametrize("kind", PLACES)
async def test_a_stale_lease_keeps_calls_back_until_it_is_renewed(kind: str, tmp_path: Path) -> None:
    async with waiting(kind, tmp_path) as w, w.bench.engine as engine:
        work = asyncio.create_task(engine.complete(stream(jobs(chat("a", f"{n}") for n in range(CALLS)))))
        await w.names.waiting()
        w.lease.problem = LeaseStale("not renewed")
        w.names.go_on()
        async with asyncio.timeout(10):
            while engine.counters.calls:
                await asyncio.sleep(0.01)
        assert await w.requests() == 0 and not work.done()
        w.lease.problem = None
        await work
        counted = engine.snapshot()
        assert await w.requests() == len(w.bench.stored("a")) == counted.calls == CALLS
        assert counted.lost_nanousd == counted.reserved_nanousd == 0 and not counted.open and not counted.retries
