"""The live check: its highest cost, and its questions to the vendors, under the lease of the sweep's store."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hab_ray.calls import ChatCall
from hab_ray.catalog.models import ModelEntry
from hab_ray.catalog.prices import Mode, reserved_rate
from hab_ray.config.sections import SpendingLimit
from hab_ray.doctor.examination import ROWS_OF_A_BATCH, Examination, Examined, Visit
from hab_ray.doctor.questions import Question
from hab_ray.doctor.tap import Exchange, tapping
from hab_ray.executors.api_versions import endpoint, unsure
from hab_ray.providers import connect
from hab_ray.providers.access import endpoint_of
from hab_ray.providers.base import Provider
from hab_ray.providers.google import DEFAULT_VERSION, PROTOCOL
from hab_ray.providers.google.version_question import taken_version
from hab_ray.rehearse.staging import account
from hab_ray.stopping import Stop
from hab_ray.storage.registry import new_run_id
from hab_ray.sweep.session import Say, Session, spending
from hab_ray.work import Work

# What a line of a batch file adds to the request.
_LINE_BYTES = 256


async def upper_bound(visit: Visit) -> int:
    """Return the most a visit can cost in nano-dollars; raise ConfigError if a key or a model's price is missing."""
    total = 0
    for name in dict.fromkeys(question.provider for question in visit.questions):
        provider = connect(endpoint_of(name, visit.work.catalog.providers[name], visit.url(name)))
        try:
            for question in visit.questions:
                if question.provider == name:
                    total += _bound(question, visit.work.models[question.model].entry, provider, visit.by_batch)
        finally:
            await provider.close()
    return total


def _bound(question: Question, entry: ModelEntry, provider: Provider, by_batch: bool) -> int:
    call = question.numbered(epoch=0, number=0)
    if isinstance(call, ChatCall):
        size, output = provider.chat(call, entry).utf8_bytes, entry.output_limit(call.params.max_tokens)
    else:
        size, output = provider.embed([call], entry).utf8_bytes, 0
    total = reserved_rate(entry, Mode.ONLINE).bound(size, output)
    if by_batch and entry.batch:
        total += ROWS_OF_A_BATCH * reserved_rate(entry, Mode.BATCH).bound(size + _LINE_BYTES, output)
    return total


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


def run_live_check(visit: Visit, max_usd: float, stop: Stop, say: Say) -> Examined:
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


async def _examine(visit: Visit, session: Session, max_usd: float) -> Examined:
    budget = session.budget(SpendingLimit(usd=max_usd))
    async with tapping() as tap:
        return await session.ask(Examination(visit, session, budget, tap))
