"""The online engine of one provider account in a background thread, with the flow of its rows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from hab_ray.calls import Outcome
from hab_ray.engine.jobs import Counters, Job
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.opening import AccountSetup, open_engine
from hab_ray.engine.online.sender import SharedServices
from hab_ray.engine.online.thread import EngineThread
from hab_ray.errors import EngineBroke
from hab_ray.executors.protocol import CallsSpooled, Channel, CountersRead, Dependent, Event, Feed, Spool
from hab_ray.executors.settling import WorkerContext
from hab_ray.resources import exits_refused
from hab_ray.stages.base import Again, Rows
from hab_ray.work import Shard, Work, call_stage


class DependentCalls:
    """The feeds of one executor. `writer` names its files and must be unique in this epoch.

    Its methods may run in any thread, one at a time.
    """

    def __init__(self, site: WorkerContext, writer: str) -> None:
        self._site, self._writer = site, writer
        self._sources: dict[int, _Source] = {}
        self._files = 0

    def follow(self, feeds: Iterable[Feed]) -> None:
        for feed in feeds:
            self._sources[feed.number] = _Source(self._site.work, feed)

    @exits_refused()
    def handle(self, durable: Sequence[tuple[Job, Outcome]]) -> list[Spool]:
        """Spool the calls that follow from outcomes in the store.

        Raises:
            DamagedFile, OSError: a file of the run cannot be read or written.
        """
        outcomes: dict[int, list[tuple[int, Outcome]]] = defaultdict(list)
        for job, outcome in durable:
            if job.shard in self._sources and job.task is not None:
                outcomes[job.shard].append((job.task, outcome))
        jobs: dict[tuple[str, str], list[Job]] = defaultdict(list)
        for number, found in outcomes.items():
            for reader in self._sources[number].readers:
                jobs[reader.stage_name, reader.model.name] += reader.jobs(self._sources[number].rows(found))
        return [self._spool(stage, model, calls) for (stage, model), calls in jobs.items() if calls]

    def _spool(self, stage: str, model: str, jobs: Sequence[Job]) -> Spool:
        self._files += 1
        work = self._site.work
        return self._site.pending.spool_flow(self._writer, self._files, stage, work.models[model], jobs)


class _Source:
    """A shard whose rows flow. It loads its tasks at the first row."""

    def __init__(self, work: Work, feed: Feed) -> None:
        self._work, self._shard = work, feed.shard
        self._stage = call_stage(work, feed.shard)
        self.readers = [_Reader(work, dependent, feed.shard) for dependent in feed.dependents]

    @cached_property
    def _tasks(self) -> Sequence[Any]:
        return self._work.tasks(self._shard)

    def _task(self, position: int) -> Any:
        if position >= len(self._tasks):
            raise EngineBroke(
                f"{self._work.run_path}: files of the run that this process has read are gone: the run was moved, "
                "deleted or unmounted. Put it back and run the same command again; what was paid for is in the store"
            )
        return self._tasks[position]

    def rows(self, outcomes: Iterable[tuple[int, Outcome]]) -> list[Any]:
        """Return the rows of tasks, given by position; tasks that need a re-ask have none."""
        parsed = (self._stage.parse(self._task(task), outcome) for task, outcome in outcomes)
        return [row for row in parsed if not isinstance(row, Again)]


class _Reader:
    """A shard that reads a source row by row. It loads its other inputs at the first row."""

    def __init__(self, work: Work, dependent: Dependent, source: Shard) -> None:
        self._work, self._number, self._shard = work, dependent.number, dependent.shard
        self._row_type = source.spec.row
        self._stage = call_stage(work, dependent.shard)
        self.stage_name, self.model = dependent.shard.stage, work.model(dependent.shard)

    @cached_property
    def _other_inputs(self) -> Rows:
        return self._work.rows_read(self._shard)

    def jobs(self, rows: Sequence[Any]) -> Iterator[Job]:
        tasks = self._stage.tasks(Rows({**self._other_inputs.by_type, self._row_type: rows}))
        for row_id, call in self._stage.requests(tasks):
            yield Job(self._number, row_id, call)


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
