"""The online engine of one provider account as executors use it: in a thread, with the rows that flow on from it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice

from hab_ray.calls import Outcome
from hab_ray.engine.jobs import Counters, Job
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.opening import AccountSetup, open_engine
from hab_ray.engine.online.reply_writer import MAX_QUEUED
from hab_ray.engine.online.sender import SharedServices
from hab_ray.engine.online.thread import EngineThread
from hab_ray.executors.flow import DependentCalls
from hab_ray.executors.protocol import CallsSpooled, Channel, CountersRead, Event, Feed, Spool

JOBS_AT_ONCE = 256
WAIT_CHECK_S = 0.05


@dataclass(frozen=True)
class EngineReport:
    """What an engine has done since it opened, and what was spooled since its last report."""

    counters: Counters
    spooled: tuple[Spool, ...]


def events_of(channel: Channel, report: EngineReport) -> Iterator[Event]:
    """What a report tells the driver.

    Calls that followed from rows come before the counters that call those rows finished.
    """
    if report.spooled:
        yield CallsSpooled(report.spooled)
    yield CountersRead(channel, report.counters)


class ProviderEngine:
    """Opens at once, in a thread of its own; what is asked before it is open waits until it is.

    Nothing is sent before `not_before` (Unix time). Methods are for any thread.
    """

    def __init__(self, setup: AccountSetup, writer: str, around: SharedServices, not_before: float) -> None:
        self._setup, self._writer, self._around = setup, writer, around
        self._opens_at = time.monotonic() + not_before - time.time()  # the clock may be set back meanwhile
        self._stopping = threading.Event()
        self._flow: DependentCalls | None = None
        self._spooled: deque[Spool] = deque()
        self._thread = EngineThread(setup.provider, self._opening, self._reported)
        self.opened = self._thread.opened

    @property
    def is_open(self) -> bool:
        """Whether there is a report.

        Raises:
            HabError, OSError: it could not be opened.
        """
        if not self.opened.done():
            return False
        self.opened.result()
        return True

    def follow(self, feeds: Sequence[Feed], flow: Callable[[str], DependentCalls]) -> None:
        """Have rows of these shards flow on from now on; `flow` makes what spools their calls, by the writer's name."""
        if feeds:
            self._flow = self._flow or flow(self._writer)
            self._flow.follow(feeds)

    def complete(self, jobs: Iterator[Job], most_queued: float = MAX_QUEUED) -> Future[None]:
        """Complete jobs, which a thread reads at the pace of the engine; see OnlineEngine.complete."""
        return self._thread.complete(_stream(jobs), most_queued)

    def report(self) -> Future[EngineReport]:
        return self._thread.report()

    def stop(self, drain_s: float) -> None:
        self._stopping.set()
        self._thread.stop(drain_s)

    def close(self) -> Future[EngineReport]:
        return self._thread.close()

    def _reported(self, engine: OnlineEngine) -> EngineReport:
        counters = engine.snapshot()
        return EngineReport(counters, tuple(self._spooled.popleft() for _ in range(len(self._spooled))))

    def _feed(self, durable: Sequence[tuple[Job, Outcome]]) -> None:
        if self._flow:
            self._spooled.extend(self._flow.take_in(durable))

    @asynccontextmanager
    async def _opening(self) -> AsyncIterator[OnlineEngine]:
        while time.monotonic() < self._opens_at and not self._stopping.is_set():
            await asyncio.sleep(WAIT_CHECK_S)
        async with open_engine(self._setup, self._writer, self._around, self._feed) as engine:
            yield engine


async def _stream(jobs: Iterator[Job]) -> AsyncIterator[Job]:
    while block := await asyncio.to_thread(lambda: list(islice(jobs, JOBS_AT_ONCE))):
        for job in block:
            yield job
