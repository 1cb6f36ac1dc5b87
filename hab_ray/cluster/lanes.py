"""Lanes: one asyncio actor a provider, on the driver's node, around the online engine."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any

import ray
import ray.data
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hab_ray.calls import Outcome
from hab_ray.catalog import ModelEntry, ProviderEntry, folder_name
from hab_ray.cluster.limits import SharedBudget, SharedLimiterClient, account
from hab_ray.cluster.session import ANSWER_S, WorkerDied, result
from hab_ray.engine.budget.budget import unlimited
from hab_ray.engine.jobs import Counters, Job
from hab_ray.engine.memory import spare_what_stays
from hab_ray.engine.online.context import OnlineContext
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.executors.flow import Flow
from hab_ray.executors.online import account_name
from hab_ray.executors.pending import JOB_COLUMNS, Pending, jobs_of
from hab_ray.executors.protocol import Channel, Feed, Spool
from hab_ray.executors.settling import Site
from hab_ray.location import Location
from hab_ray.prices import Mode
from hab_ray.providers import connect
from hab_ray.providers.access import endpoint_of
from hab_ray.storage.ballast import Ballast
from hab_ray.storage.folder import open_folder
from hab_ray.storage.store import Store, StoreWriter
from hab_ray.storage.watches import WatchSetup

STREAMS = 1000


@dataclass(frozen=True)
class LaneSetup:
    """What a lane needs to know. The key is read from the environment inside the actor, never passed.

    `budget` is the actor that keeps the run's budget, None where it has none.
    """

    provider: str
    entry: ProviderEntry
    url: str
    models: dict[str, ModelEntry]
    store: Location
    epoch: int
    watch: WatchSetup
    failures_since: int
    not_before: float
    budget: Any | None

    @property
    def account(self) -> str:
        """The name of the actor that keeps the provider's limits."""
        return account_name(self.provider, self.url, self.entry.key_env)


@ray.remote(num_cpus=0.01)
class Lane:
    """Completes the calls of one provider."""

    def __init__(self, setup: LaneSetup) -> None:
        folder = open_folder(setup.store)
        store = Store(folder, setup.failures_since)
        self._provider = connect(endpoint_of(setup.provider, setup.entry, setup.url))
        self._wait_s = max(0.0, setup.not_before - time.time())
        self._opening: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._flow: Flow | None = None
        self._spooled: deque[Spool] = deque()
        lane = str(ray.get_runtime_context().get_actor_id())
        self._writer = f"{folder_name(setup.provider)}-{os.getpid()}"
        limits = {name: entry.limits or setup.entry.limits for name, entry in setup.models.items()}
        self._engine = OnlineEngine(
            provider=self._provider,
            models=setup.models,
            writer=StoreWriter(folder, setup.epoch, self._writer, Mode.ONLINE),
            known=store.known(setup.models),
            context=OnlineContext(
                clock=time.monotonic,
                utc_now=lambda: datetime.now(UTC),
                check_lease=setup.watch.open().check,
                limiter=SharedLimiterClient(setup.account, lane, limits, setup.entry.limits.patience_s),
                budget=SharedBudget(setup.budget) if setup.budget else unlimited(),
                free_disk_space=Ballast(setup.store, folder_name(setup.provider)).release,
            ),
            on_durable=self._feed,
        )

    async def open(self) -> None:
        """Start, once; after a crash of the driver before, only when its last calls must have ended."""
        self._opening = self._opening or asyncio.create_task(self._open())
        await self._opening

    async def _open(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait_s):
                await self._stopping.wait()
        await self._engine.__aenter__()
        spare_what_stays()

    async def complete(self, calls: ray.data.Dataset, site: Site | None = None, feeds: Sequence[Feed] = ()) -> None:
        """Complete every call of a dataset. It is scheduled from here: a dispatch starts no process of its own.

        Rows of `feeds` flow on; `site` says where to.
        """
        await self.open()
        if site and feeds:
            self._flow = self._flow or Flow(site, self._writer)
            self._flow.follow(feeds)
        await self._engine.complete(_jobs(_tables(calls)))

    async def complete_flowing(self, pending: Pending, spools: Sequence[Spool]) -> None:
        """Complete calls that followed from rows of a source under way, beside those that are still to be read."""
        await self.open()
        blocks = (block for spool in spools for block in pending.blocks(spool, JOB_COLUMNS))
        await self._engine.complete(_jobs(blocks), most_queued=inf)

    async def snapshot(self) -> LaneSnapshot:
        """What was done so far; rows left open, and calls that were spooled, appear once."""
        spooled = tuple(self._spooled.popleft() for _ in range(len(self._spooled)))
        return LaneSnapshot(self._engine.snapshot(), spooled)

    def _feed(self, durable: Sequence[tuple[Job, Outcome]]) -> None:
        if self._flow:
            self._spooled.extend(self._flow.take_in(durable))

    async def stop(self, drain_s: float = inf) -> None:
        """Begin no further request; those in flight have so many seconds."""
        self._stopping.set()
        await self._engine.stop(drain_s)

    async def close(self) -> LaneSnapshot:
        """Wait for what is in flight, keep it, and close connections; the last that there is to say."""
        await self.open()
        await self._engine.__aexit__()
        await self._provider.close()
        return await self.snapshot()


async def _jobs(tables: Iterator[Any]) -> AsyncIterator[Job]:
    """The rows of tables as jobs; the tables are read by a thread, at the pace of the engine."""
    while (table := await asyncio.to_thread(next, tables, None)) is not None:
        for job in jobs_of(table):
            yield job


def _tables(calls: ray.data.Dataset) -> Iterator[Any]:
    yield from calls.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1)


@dataclass(frozen=True)
class LaneSnapshot:
    """What a lane has done since it opened, and what it has spooled since the last snapshot."""

    counters: Counters
    spooled: tuple[Spool, ...]


@dataclass
class _Kept:
    """A lane that was started, the reference to the end of its opening, and whether anybody asked for it."""

    lane: Any
    opened: Any
    channel: Channel
    used: bool = False

    @property
    def is_open(self) -> bool:
        return bool(ray.wait([self.opened], timeout=0)[0])


class Lanes:
    """The lanes of one driver, on the driver's node. A lane takes seconds to open, and nobody waits for that."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._lives: Counter[str] = Counter()

    def start(self, provider: str, setup: LaneSetup) -> None:
        """Begin to open a provider's lane."""
        if provider in self._kept:
            return
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        account(setup.account)
        lane = Lane.options(scheduling_strategy=here, max_concurrency=STREAMS).remote(setup)  # type: ignore[attr-defined]
        channel = Channel(provider, Mode.ONLINE, self._lives[provider])
        self._kept[provider] = _Kept(lane, lane.open.remote(), channel)

    def get(self, provider: str, setup: Callable[[], LaneSetup]) -> tuple[Any, Channel]:
        """The lane of a provider and its channel, started if it was not; calls to it wait until it is open."""
        if provider not in self._kept:
            self.start(provider, setup())
        kept = self._kept[provider]
        kept.used = True
        return kept.lane, kept.channel

    def snapshots(self, timeout_s: float = ANSWER_S) -> dict[Channel, LaneSnapshot | WorkerDied]:
        """What each lane that is open and used has done, or that it died or does not answer in time.

        Raises:
            HabError, OSError: a lane had to end.
        """
        asked = {
            kept.channel: kept.lane.snapshot.remote() for kept in self._kept.values() if kept.used and kept.is_open
        }
        return {channel: _answer(ref, channel, timeout_s) for channel, ref in asked.items()}

    def forget(self, channel: Channel) -> None:
        """Give up a lane that died or hangs; the next `get` for its provider starts another."""
        kept = self._kept.get(channel.provider)
        if kept and kept.channel == channel:
            del self._kept[channel.provider]
            self._lives[channel.provider] += 1
            ray.kill(kept.lane)

    def stop(self, drain_s: float = inf) -> None:
        """Have no lane begin another request; those in flight have so many seconds. Waits for nothing; any thread."""
        for kept in list(self._kept.values()):
            kept.lane.stop.remote(drain_s)

    def end(self) -> Mapping[Channel, Any]:
        """Have each used lane wait for what is in flight, write it and end: references to their last snapshots.

        Lanes never used just end.
        """
        for kept in self._kept.values():
            if not kept.used:
                ray.kill(kept.lane)
        return {kept.channel: kept.lane.close.remote() for kept in self._kept.values() if kept.used}

    def close(self) -> None:
        """End, and wait for it; what was in flight is in the store when this returns.

        Raises:
            EngineBroke: a lane died.
        """
        for channel, ref in self.end().items():
            result(ref, who_calls(channel), timeout_s=None)


def who_calls(channel: Channel) -> str:
    """What a message to the user calls a lane."""
    return f"the worker that calls {channel.provider}"


def _answer(ref: Any, channel: Channel, timeout_s: float) -> LaneSnapshot | WorkerDied:
    try:
        snapshot: LaneSnapshot = result(ref, who_calls(channel), timeout_s)
    except WorkerDied as error:
        return error
    return snapshot
