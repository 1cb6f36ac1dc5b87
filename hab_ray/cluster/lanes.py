"""Lanes: actors with an online engine. A provider account has one or more, on any node that can access the store."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from typing import Any

import ray
import ray.data

from hab_ray.catalog.models import folder_name
from hab_ray.cluster.limits import SharedBudget, SharedLimiterClient
from hab_ray.engine.budget.budget import unlimited
from hab_ray.engine.jobs import Job
from hab_ray.engine.online.opening import AccountSetup
from hab_ray.engine.online.sender import SharedServices
from hab_ray.executors.online import account_name
from hab_ray.executors.pending import INDEX, Pending, Share, jobs_of, spooled
from hab_ray.executors.protocol import Feed, Spool
from hab_ray.executors.provider_engine import EngineReport, ProviderEngine, read_in_thread
from hab_ray.executors.settling import WorkerContext
from hab_ray.storage.lease.watches import RemoteWatch, RenewalAge, Watch

STREAMS = 1000
_WRITER_DIGITS = 16
_SPOOLS_PER_TASK, _MAX_TASKS = 8, 16


@dataclass(frozen=True)
class LaneSetup:
    """Settings of a lane. API keys are read from the environment of its node and never passed.

    The lane sends nothing for `wait_s` seconds, nor before `watch` allows it. `budget` is the actor with
    the run's budget; None if it is unlimited.
    """

    account: AccountSetup
    watch: RemoteWatch
    wait_s: float
    budget: Any | None

    @property
    def limiter(self) -> str:
        """The name of the actor with the account's limits."""
        return account_name(self.account.provider, self.account.url, self.account.entry.key_env)


class Lane:
    """An actor that completes calls of one provider account. `site` is for rows that flow."""

    def __init__(self, setup: LaneSetup, site: WorkerContext) -> None:
        self._site = site
        lane = str(ray.get_runtime_context().get_actor_id())
        writer = f"{folder_name(setup.account.provider)}-{lane[:_WRITER_DIGITS]}"
        self._watch = setup.watch
        self._engine = ProviderEngine(setup.account, writer, _services(setup, lane, self._watch), setup.wait_s)

    async def open(self) -> None:
        """Wait until calls may be sent."""
        await asyncio.wrap_future(self._engine.opened)

    async def hear(self, heard: RenewalAge | None) -> float:
        return self._watch.hear(heard)

    async def complete(self, calls: ray.data.Dataset, feeds: Sequence[Feed] = ()) -> None:
        """Complete every call of a dataset, and let rows of `feeds` flow.

        This process schedules the dataset, so a dispatch starts no further process.
        """
        self._engine.follow(feeds, self._site)
        await asyncio.wrap_future(self._engine.complete(read_in_thread(_jobs(calls))))

    async def complete_flowing(self, pending: Pending, spools: Sequence[Spool], share: Share) -> None:
        """Complete a share of calls that flowed here, ahead of calls that are not read yet."""
        await asyncio.wrap_future(self._engine.complete(read_in_thread(pending.jobs(spools, share)), most_queued=inf))

    async def report(self) -> EngineReport:
        """Return the counters so far; rows left open and spooled calls appear in one report only."""
        return await asyncio.wrap_future(self._engine.report())

    async def stop(self, drain_s: float = inf) -> None:
        """Send no further requests; those in flight have `drain_s` seconds to end."""
        self._engine.stop(drain_s)

    async def close(self) -> EngineReport:
        """Wait for calls in flight, store their outcomes, close connections, and return the final report."""
        return await asyncio.wrap_future(self._engine.close())


LANE_ACTOR = ray.remote(num_cpus=0.01)(Lane)


def _services(setup: LaneSetup, lane: str, watch: Watch) -> SharedServices:
    account = setup.account
    return SharedServices(
        limiter=SharedLimiterClient(setup.limiter, lane, account.limits, account.entry.limits.patience_s),
        budget=SharedBudget(setup.budget) if setup.budget else unlimited(),
        watch=watch,
    )


def _jobs(calls: ray.data.Dataset) -> Iterator[Job]:
    tables: Iterable[Any] = calls.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1)
    for table in tables:
        yield from jobs_of(table)


def open_calls(pending: Pending, spools: Sequence[Spool], share: Share) -> ray.data.Dataset:
    """Return a lazy dataset of a share of the calls of some spools, as tables with `JOB_COLUMNS`.

    Workers read and decompress them; a lane consumes them as a stream, so that a slow row blocks no other.
    """
    tasks = min(_MAX_TASKS, ceil(len(spools) / _SPOOLS_PER_TASK))
    indices = ray.data.from_items([{INDEX: index} for index in range(len(spools))], override_num_blocks=tasks)
    read = partial(spooled, pending=pending, spools=spools, share=share)
    return indices.map_batches(read, batch_size=1, batch_format="pyarrow", num_cpus=0.8)
