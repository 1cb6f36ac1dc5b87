"""Asks the vendors themselves: under the lease of the sweep's store, from a budget of its own, and on the record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from hab_ray.doctor.comparison import Recording
from hab_ray.doctor.examination import Examination, Holding
from hab_ray.doctor.questions import Question
from hab_ray.doctor.recording import Exchange
from hab_ray.doctor.tap import tapping
from hab_ray.executors.api_versions import asked_at, endpoint, unsure
from hab_ray.providers.google.version import DEFAULT_VERSION
from hab_ray.providers.vendor import WireProtocol
from hab_ray.rehearse.staging import account
from hab_ray.sections import SpendingLimit
from hab_ray.stopping import DRAIN_S, LATE_S, Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.format import adopt
from hab_ray.storage.lease import UNCLEAN_WAIT_S, Lease
from hab_ray.storage.registry import Registry, new_run_id
from hab_ray.storage.spending import keep_lost
from hab_ray.storage.takeover import LeaseTerms, acquire_lease
from hab_ray.sweep.budget import RunBudget
from hab_ray.work import Work


@dataclass(frozen=True)
class Visit:
    """What is asked of a sweep's vendors, where they are, and what it may cost in dollars.

    A batch is waited for `wait_s` seconds.
    """

    work: Work
    questions: Sequence[Question]
    url: Callable[[str], str]
    by_batch: bool
    wait_s: float
    max_usd: float


async def asked_on_record(work: Work) -> tuple[Mapping[str, str], Sequence[Exchange]]:
    """The endpoints whose version is not the default, and the exchanges that have shown it."""
    versions: dict[str, str] = {}
    async with tapping() as tap:
        for one in unsure(work):
            real = endpoint(one)
            url = tap.address(f"API version of {one.provider}", account(one.provider, WireProtocol.GOOGLE), real)
            version = await asked_at(one, replace(real, url=url))
            if version not in (None, DEFAULT_VERSION):
                versions[one.provider] = str(version)
        return versions, tap.exchanges


def pay(visit: Visit, terms: LeaseTerms, stop: Stop) -> Recording:
    """Ask everything once.

    What it costs counts as a run's of its own, in the store's books and not in the sweep's budget.

    Raises:
        StoreHeld: another driver has the store.
        Interrupted: the user ended it.
        LeaseLost, ConfigError, OSError: spending had to end; what was answered by then is in the store.
    """
    store = visit.work.sweep.store
    run = visit.work.run_path.beside(f"doctor-{visit.work.run_path.name}")
    lease = acquire_lease(store, run, datetime.now(UTC), terms)
    try:
        folder = open_folder(store)
        adopt(folder, f"store {store}")
        Registry(folder, store).enter(new_run_id(), run, datetime.now(UTC))
        budget = RunBudget(SpendingLimit(usd=visit.max_usd), folder, store.absolute(), lease)
        budget.open_books((), 0, ())
        holding = Holding(store, lease.epoch, lease.watch(), budget.client(), run.seen_from(store))
        with stop.last_words(lease.release):
            recording = asyncio.run(_asked(visit, holding, lease, stop))
        if recording.examined.lost_nanousd:
            keep_lost(folder, lease.epoch, recording.examined.lost_nanousd)
        return recording
    finally:
        lease.release()


async def _asked(visit: Visit, holding: Holding, lease: Lease, stop: Stop) -> Recording:
    """Ask; on Ctrl-C or SIGTERM nothing more is sent, and calls in flight get `DRAIN_S` to be answered and kept."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    async with tapping() as tap:
        examination = Examination(visit.work, visit.questions, holding, tap, visit.url, visit.by_batch, visit.wait_s)

        async def end_when_told() -> None:
            await told.wait()
            await examination.stop(DRAIN_S)

        def on_stop() -> None:
            loop.call_soon_threadsafe(told.set)

        with stop.deferred(on_stop, DRAIN_S + LATE_S):
            ending = asyncio.create_task(end_when_told())
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), 0.0 if lease.clean else UNCLEAN_WAIT_S)
            examined = await examination.run()
            ending.cancel()
        return Recording(tap.exchanges, examined)
