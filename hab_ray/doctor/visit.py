"""Asks the vendors themselves: under the lease of the sweep's store, from a budget of its own, and on the record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hab_ray.config.sections import SpendingLimit
from hab_ray.doctor.comparison import Recording
from hab_ray.doctor.examination import Examination, Visit
from hab_ray.doctor.recording import Exchange
from hab_ray.doctor.tap import tapping
from hab_ray.executors.api_versions import asked_at, endpoint, unsure
from hab_ray.providers.google import PROTOCOL
from hab_ray.providers.google.version import DEFAULT_VERSION
from hab_ray.rehearse.staging import account
from hab_ray.stopping import Stop
from hab_ray.storage.registry import new_run_id
from hab_ray.sweep.session import Say, Session, spending
from hab_ray.work import Work


async def asked_on_record(work: Work) -> tuple[Mapping[str, str], Sequence[Exchange]]:
    """The endpoints whose version is not the default, and the exchanges that have shown it."""
    versions: dict[str, str] = {}
    async with tapping() as tap:
        for one in unsure(work):
            real = endpoint(one)
            url = tap.address(f"API version of {one.provider}", account(one.provider, PROTOCOL), real)
            version = await asked_at(one, replace(real, url=url))
            if version not in (None, DEFAULT_VERSION):
                versions[one.provider] = str(version)
        return versions, tap.exchanges


def pay(visit: Visit, max_usd: float, stop: Stop, say: Say) -> Recording:
    """Ask everything once, for at most so many dollars.

    What it costs counts as a run's of its own, in the store's books and not in the sweep's budget.

    Raises:
        StoreHeld: another driver has the store.
        Interrupted: the user ended it.
        LeaseLost, ConfigError, OSError: spending had to end; what was answered by then is in the store.
    """
    run = visit.work.run_path.beside(f"doctor-{visit.work.run_path.name}")
    with spending(replace(visit.work, run_path=run, run_id=new_run_id()), stop, say) as session:
        session.register_run()
        return asyncio.run(_asked(visit, session, max_usd))


async def _asked(visit: Visit, session: Session, max_usd: float) -> Recording:
    budget = session.budget(SpendingLimit(usd=max_usd))
    async with tapping() as tap:
        examined = await session.ask(Examination(visit, session, budget, tap))
        return Recording(tap.exchanges, examined)
