"""The online engine of one provider account in a background thread, with the flow of its rows."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice

from hab_ray.calls import Outcome
from hab_ray.engine.jobs import Counters, Job
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.opening import AccountSetup, open_engine
from hab_ray.engine.online.sender import SharedServices
from hab_ray.engine.online.thread import EngineThread
from hab_ray.executors.flow import DependentCalls
from hab_ray.executors.protocol import CallsSpooled, Channel, CountersRead, Event, Feed, Spool
from hab_ray.executors.settling import WorkerContext

JOBS_AT_ONCE = 256
WAIT_CHECK_S = 0.05


@dataclass(frozen=True)
class EngineReport:
    """The counters of an engine since it opened, and the calls spooled since its last report."""

    counters: Counters
    spooled: tuple[Spool, ...]


def events_of(channel: Channel, report: EngineReport) -> Iterator[Event]:
    """Yield the events of a report: first spooled calls, then the counters by which their source rows are finished."""
    if report.spooled:
        yield CallsSpooled(report.spooled)
    yield CountersRead(channel, report.counters)


class ProviderEngine(EngineThread[EngineReport]):
    """An engine that begins to open at once, and sends nothing for `wait_s` seconds."""

    def __init__(self, setup: AccountSetup, writer: str, around: SharedServices, wait_s: float) -> None:
        self._setup, self._writer, self._around = setup, writer, around
        self._opens_at = time.monotonic() + wait_s
        self._stopping = threading.Event()
        self._flow: DependentCalls | None = None
        self._spooled: deque[Spool] = deque()
        super().__init__(setup.provider, self._opening, self._reported)

    @property
    def is_open(self) -> bool:
        """Whether the engine is open and so has a report.

        Raises:
            HabError, OSError: the engine could not be opened.
        """
        if not self.opened.done():
            return False
        self.opened.result()
        return True

    def follow(self, feeds: Sequence[Feed], site: WorkerContext) -> None:
        """Let rows of these shards flow from now on."""
        if feeds:
            self._flow = self._flow or DependentCalls(site, self._writer)
            self._flow.follow(feeds)

    def stop(self, drain_s: float) -> Future[None]:
        self._stopping.set()
        return super().stop(drain_s)

    def _reported(self, engine: OnlineEngine) -> EngineReport:
        counters = engine.snapshot()
        return EngineReport(counters, tuple(self._spooled.popleft() for _ in range(len(self._spooled))))

    def _feed(self, durable: Sequence[tuple[Job, Outcome]]) -> None:
        if self._flow:
            self._spooled.extend(self._flow.handle(durable))

    @asynccontextmanager
    async def _opening(self) -> AsyncIterator[OnlineEngine]:
        while time.monotonic() < self._opens_at and not self._stopping.is_set():
            await asyncio.sleep(WAIT_CHECK_S)
        async with open_engine(self._setup, self._writer, self._around, self._feed) as engine:
            yield engine


async def read_in_thread(jobs: Iterator[Job]) -> AsyncIterator[Job]:
    """Yield jobs as the stream that an online engine reads; a thread takes them from `jobs` at the engine's pace."""
    while block := await asyncio.to_thread(lambda: list(islice(jobs, JOBS_AT_ONCE))):
        for job in block:
            yield job
