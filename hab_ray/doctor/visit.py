"""The live check: asks the vendors under the lease of the sweep's store, with its own budget, and records it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hab_ray.config.sections import SpendingLimit
from hab_ray.doctor.comparison import Recording
from hab_ray.doctor.examination import Examination, Visit
from hab_ray.doctor.recording import Exchange
from hab_ray.doctor.tap import tapping
from hab_ray.executors.api_versions import endpoint, unsure
from hab_ray.providers.google import DEFAULT_VERSION, PROTOCOL
from hab_ray.providers.google.version_question import taken_version
from hab_ray.rehearse.staging import account
from hab_ray.stopping import Stop
from hab_ray.storage.registry import new_run_id
from hab_ray.sweep.session import Say, Session, spending
from hab_ray.work import Work


async def detect_api_versions(work: Work) -> tuple[Mapping[str, str], Sequence[Exchange]]:
    """Return the API versions that are not the default by provider, and the recorded exchanges."""
    versions: dict[str, str] = {}
    async with tapping() as tap:
        for provider, wire in unsure(work).items():
            real = endpoint(provider, work.catalog.providers[provider])
            url = tap.address(f"API version of {provider}", account(provider, PROTOCOL), real)
            version = await taken_version(replace(real, url=url), wire)
            if version not in (None, DEFAULT_VERSION):
                versions[provider] = str(version)
        return versions, tap.exchanges


def run_live_check(visit: Visit, max_usd: float, stop: Stop, say: Say) -> Recording:
    """Ask every question once for at most `max_usd` dollars.

    The cost is booked in the store as that of a separate run and does not count towards the sweep's budget.

    Raises:
        StoreHeld: another driver holds the store.
        Interrupted: the user stopped it.
        LeaseLost, ConfigError, OSError: spending had to stop; replies received until then are in the store.
    """
    run = visit.work.run_path.sibling(f"doctor-{visit.work.run_path.name}")
    with spending(replace(visit.work, run_path=run, run_id=new_run_id()), stop, say) as session:
        session.register_run()
        return asyncio.run(_examine(visit, session, max_usd))


async def _examine(visit: Visit, session: Session, max_usd: float) -> Recording:
    budget = session.budget(SpendingLimit(usd=max_usd))
    async with tapping() as tap:
        examined = await session.ask(Examination(visit, session, budget, tap))
        return Recording(tap.exchanges, examined)
