"""Completes calls online in this process: each provider's engine runs in a thread of its own. Needs no Ray."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from math import inf

from hab_ray.calls import Outcome
from hab_ray.catalog import folder_name
from hab_ray.engine.jobs import Counters, Job
from hab_ray.engine.limits.limiter import Limiter
from hab_ray.engine.limits.shared import LocalLimiterClient
from hab_ray.engine.memory import spare_what_stays
from hab_ray.engine.online.context import OnlineContext
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.reply_writer import MOST_QUEUED, OnDurable
from hab_ray.engine.online.thread import EngineThread
from hab_ray.errors import EngineBroke
from hab_ray.executors.account_lock import AccountLock
from hab_ray.executors.flow import Flow
from hab_ray.executors.online import OnlineSetup, account_name
from hab_ray.executors.protocol import (
    CallsSpooled,
    Channel,
    ChannelEnded,
    CountersRead,
    Dispatch,
    DispatchEnded,
    Event,
    ExecutorDied,
    Spool,
    SpoolsRead,
    Workers,
)
from hab_ray.prices import Mode
from hab_ray.providers import connect
from hab_ray.providers.access import endpoint_of
from hab_ray.storage.ballast import Ballast
from hab_ray.storage.folder import open_folder
from hab_ray.storage.store import StoreWriter

ANSWER_S = 20.0
JOBS_AT_ONCE = 256
WAIT_CHECK_S = 0.05


OpenEngine = Callable[[OnDurable], AbstractAsyncContextManager[OnlineEngine]]


@dataclass(frozen=True)
class _Under:
    """A dispatch under way."""

    dispatch: Dispatch
    channel: Channel
    end: Future[None]


class _Engine:
    """The engine of one provider account in its thread, its channel, its lock and the rows that flow on from it."""

    def __init__(self, channel: Channel, flow: Flow, lock: AccountLock | None, open_engine: OpenEngine) -> None:
        self.channel, self.flow, self._lock = channel, flow, lock
        self._spooled: deque[Spool] = deque()
        self.thread = EngineThread(channel.provider, lambda: open_engine(self.feed))
        self._opened = self.thread.start()

    def feed(self, durable: Sequence[tuple[Job, Outcome]]) -> None:
        """Spool the calls that follow from rows which became durable."""
        self._spooled.extend(self.flow.take_in(durable))

    def spooled(self) -> tuple[Spool, ...]:
        """The spools since the last look."""
        return tuple(self._spooled.popleft() for _ in range(len(self._spooled)))

    @property
    def is_open(self) -> bool:
        """Whether its counters can be read.

        Raises:
            HabError, OSError: it could not be opened.
        """
        if not self._opened.done():
            return False
        self._opened.result()
        return True

    def counters(self) -> Counters:
        """The counters so far.

        Raises:
            EngineBroke: the engine's thread does not answer.
        """
        try:
            return self.thread.snapshot().result(ANSWER_S)
        except TimeoutError:
            raise EngineBroke(
                f"the thread that calls {self.channel.provider} does not answer; what was paid for is kept, and the "
                "same command goes on where this ended"
            ) from None

    def release(self) -> None:
        """Let another process call the account."""
        if self._lock:
            self._lock.release()


class LocalExecutor:
    """The online executor of a run in the driver's process. An engine opens at its provider's first dispatch."""

    def __init__(self, setup: OnlineSetup, wake: Callable[[], None]) -> None:
        self._setup, self._wake = setup, wake
        self._engines: dict[str, _Engine] = {}
        self._under_way: list[_Under] = []
        self._ending: dict[Channel, Future[Counters]] | None = None
        self._stopping = threading.Event()

    @property
    def workers(self) -> Workers | None:
        """See OnlineExecutor. Threads and processes of this machine do that."""
        return None

    def start(self, dispatch: Dispatch) -> Channel:
        """See Executor."""
        engine = self._engine(dispatch.provider)
        engine.flow.follow(dispatch.feeds)
        jobs = _stream(self._setup.site.pending.jobs(dispatch.spools))
        end = engine.thread.complete(jobs, inf if dispatch.is_flowing else MOST_QUEUED)
        end.add_done_callback(lambda _: self._wake())
        self._under_way.append(_Under(dispatch, engine.channel, end))
        return engine.channel

    def holds(self, spool: Spool) -> bool:
        """See Executor. Engines forget what they had in flight; only batches outlive a process."""
        return False

    @property
    def is_parked(self) -> bool:
        """See Executor."""
        return not self._under_way

    def poll(self) -> Sequence[Event]:
        """See Service."""
        if self._ending is not None:
            return list(self._last_events(self._ending))
        try:
            return list(self._events())
        except Exception as error:  # whatever ended an engine ends the run
            return [ExecutorDied(error)]

    def _events(self) -> Iterator[Event]:
        ended = [one for one in self._under_way if one.end.done()]
        for engine in self._engines.values():
            if engine.is_open:
                yield from _said(engine, engine.counters())
        for one in ended:
            self._under_way.remove(one)
            one.end.result()
            yield SpoolsRead(one.dispatch.order)
            yield DispatchEnded(one.dispatch.order)

    def _last_events(self, ending: dict[Channel, Future[Counters]]) -> Iterator[Event]:
        for channel in [channel for channel, last in ending.items() if last.done()]:
            last = ending.pop(channel)
            if last.exception() is None:
                yield from _said(self._engines[channel.provider], last.result())
            yield ChannelEnded(channel)

    def stop(self, drain_s: float) -> None:
        """See Service."""
        self._stopping.set()
        for engine in list(self._engines.values()):
            engine.thread.stop(drain_s)

    def end(self) -> Collection[Channel]:
        """See Service."""
        self._ending = {engine.channel: engine.thread.close() for engine in self._engines.values()}
        for last in self._ending.values():
            last.add_done_callback(lambda _: self._wake())
        return list(self._ending)

    def close(self) -> None:
        """See Service. A thread that has not ended by now is left to end with the process."""
        for engine in self._engines.values():
            engine.release()

    def _engine(self, provider: str) -> _Engine:
        if provider not in self._engines:
            work = self._setup.site.work
            entry, url = work.catalog.providers[provider], self._setup.url(provider)
            account = account_name(provider, url, entry.key_env)
            lock = None if entry.serve else AccountLock(account, provider, work.run_name)
            flow = Flow(self._setup.site, _writer(provider))
            channel = Channel(provider, Mode.ONLINE)
            self._engines[provider] = _Engine(channel, flow, lock, lambda feed: self._opened(provider, url, feed))
        return self._engines[provider]

    @asynccontextmanager
    async def _opened(self, provider: str, url: str, feed: OnDurable) -> AsyncIterator[OnlineEngine]:
        setup, site = self._setup, self._setup.site
        while time.time() < setup.not_before and not self._stopping.is_set():
            await asyncio.sleep(WAIT_CHECK_S)
        entry = site.work.catalog.providers[provider]
        models = {m.name: m.entry for m in site.work.models.values() if m.entry.provider == provider}
        folder, epoch = open_folder(site.store), site.pending.epoch
        limits = {name: model.limits or entry.limits for name, model in models.items()}
        connection = connect(endpoint_of(provider, entry, url))
        engine = OnlineEngine(
            provider=connection,
            models=models,
            writer=StoreWriter(folder, epoch, _writer(provider), Mode.ONLINE),
            known=await asyncio.to_thread(site.open_store().known, models),
            context=OnlineContext(
                clock=time.monotonic,
                utc_now=lambda: datetime.now(UTC),
                check_lease=setup.lease.watch().check,
                limiter=LocalLimiterClient(Limiter(limits, entry.limits.patience_s), time.monotonic),
                budget=setup.budget,
                free_disk_space=Ballast(site.store, folder_name(provider)).release,
            ),
            on_durable=feed,
        )
        try:
            async with engine:
                spare_what_stays()
                yield engine
        finally:
            await connection.close()


def _writer(provider: str) -> str:
    """The name of this process's files of a provider."""
    return f"{folder_name(provider)}-{os.getpid()}"


def _said(engine: _Engine, counters: Counters) -> Iterator[Event]:
    """Calls that followed from rows come before the counters that call those rows finished."""
    if spooled := engine.spooled():
        yield CallsSpooled(spooled)
    yield CountersRead(engine.channel, counters)


async def _stream(jobs: Iterator[Job]) -> AsyncIterator[Job]:
    """Jobs from a spool, which is read by a thread at the pace of the engine."""
    while block := await asyncio.to_thread(lambda: list(islice(jobs, JOBS_AT_ONCE))):
        for job in block:
            yield job
