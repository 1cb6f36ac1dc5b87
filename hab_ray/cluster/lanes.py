"""Lanes: one asyncio actor a provider, on the driver's node, around the online engine."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any

import ray
import ray.data
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hab_ray.calls import from_json
from hab_ray.catalog import ModelEntry, ProviderEntry, folder_name
from hab_ray.cluster.limits import SharedMoney, SharedPermits, account, account_name
from hab_ray.cluster.session import ANSWER_S, result
from hab_ray.engine.budget import unlimited
from hab_ray.engine.jobs import Job, Tally
from hab_ray.engine.online import OnlineEngine, Surroundings
from hab_ray.location import Location
from hab_ray.prices import Mode
from hab_ray.providers import connect
from hab_ray.providers.access import endpoint_of
from hab_ray.storage.ballast import Ballast
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease import LeaseWatch
from hab_ray.storage.store import Store, StoreWriter

COLUMNS = ("shard", "row_id", "call")
STREAMS = 64
COLLECT_EVERY = (20_000, 20, 50)


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
        lane = str(ray.get_runtime_context().get_actor_id())
        limits = {name: entry.limits or setup.entry.limits for name, entry in setup.models.items()}
        self._engine = OnlineEngine(
            provider=self._provider,
            models=setup.models,
            writer=StoreWriter(folder, setup.epoch, f"{folder_name(setup.provider)}-{os.getpid()}", Mode.ONLINE),
            known=store.known(setup.models),
            world=Surroundings(
                clock=time.monotonic,
                today=lambda: datetime.now(UTC),
                guard=LeaseWatch(folder, setup.epoch, time.monotonic).check,
                permits=SharedPermits(setup.account, lane, limits, setup.entry.limits.patience_s),
                money=SharedMoney(setup.budget) if setup.budget else unlimited(),
                make_room=Ballast(setup.store, folder_name(setup.provider)).release,
            ),
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
        _spare_what_stays()

    async def complete(self, calls: ray.data.Dataset) -> None:
        """Complete every call of a dataset. It is scheduled from here: a pass starts no process of its own."""
        await self.open()
        await self._engine.complete(_jobs(calls))

    async def tally(self) -> Tally:
        """What was done so far; rows left open are told once."""
        return self._engine.tell()

    async def stop(self, drain_s: float = inf) -> None:
        """Begin no further request; those in flight have so many seconds."""
        self._stopping.set()
        await self._engine.stop(drain_s)

    async def close(self) -> Tally:
        """Wait for what is in flight, keep it, and close connections; the last that there is to say."""
        await self.open()
        await self._engine.__aexit__()
        await self._provider.close()
        return self._engine.tell()


def _spare_what_stays() -> None:
    """Have the garbage collector leave alone what is loaded by now: to look it through took a fifth of a call's CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)


async def _jobs(calls: ray.data.Dataset) -> AsyncIterator[Job]:
    """The rows of a dataset as jobs; the dataset is read by a thread, at the pace of the engine."""
    tables = _tables(calls)
    while (table := await asyncio.to_thread(next, tables, None)) is not None:
        columns = [table.column(name).to_pylist() for name in COLUMNS]
        for shard, row_id, call in zip(*columns, strict=True):
            yield Job(shard, row_id, from_json(call))


def _tables(calls: ray.data.Dataset) -> Iterator[Any]:
    yield from calls.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1)


@dataclass
class _Kept:
    """A lane that was started, the reference to the end of its opening, and whether anybody asked for it."""

    lane: Any
    opened: Any
    used: bool = False

    @property
    def is_open(self) -> bool:
        return bool(ray.wait([self.opened], timeout=0)[0])


class Lanes:
    """The lanes of one driver, on the driver's node. A lane takes seconds to open, and nobody waits for that."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def start(self, provider: str, setup: LaneSetup) -> None:
        """Begin to open a provider's lane."""
        if provider in self._kept:
            return
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        account(setup.account)
        lane = Lane.options(scheduling_strategy=here, max_concurrency=STREAMS).remote(setup)  # type: ignore[attr-defined]
        self._kept[provider] = _Kept(lane, lane.open.remote())

    def get(self, provider: str, setup: Callable[[], LaneSetup]) -> Any:
        """The lane of a provider, started if it was not; what it is asked for waits until it is open."""
        if provider not in self._kept:
            self.start(provider, setup())
        self._kept[provider].used = True
        return self._kept[provider].lane

    def tallies(self, names: Container[str] | None = None, timeout_s: float = ANSWER_S) -> dict[str, Tally]:
        """What each lane that is open and used has done; of these names only, where some are given.

        Raises:
            EngineBroke: a lane died or does not answer in time.
        """
        asked = {
            name: kept.lane.tally.remote()
            for name, kept in self._kept.items()
            if kept.used and (names is None or name in names) and kept.is_open
        }
        return {
            provider: result(ref, f"the worker that calls {provider}", timeout_s) for provider, ref in asked.items()
        }

    def stop(self, drain_s: float = inf) -> None:
        """Have no lane begin another request; those in flight have so many seconds. Waits for nothing; any thread."""
        for kept in list(self._kept.values()):
            kept.lane.stop.remote(drain_s)

    def end(self) -> Mapping[str, Any]:
        """Have each used lane wait for what is in flight, write it and end: references to their last tallies.

        Lanes never used just end.
        """
        for kept in self._kept.values():
            if not kept.used:
                ray.kill(kept.lane)
        return {name: kept.lane.close.remote() for name, kept in self._kept.items() if kept.used}

    def close(self) -> None:
        """End, and wait for it; what was in flight is in the store when this returns.

        Raises:
            EngineBroke: a lane died.
        """
        for provider, ref in self.end().items():
            result(ref, f"the worker that calls {provider}", timeout_s=None)
