"""A small sweep that asks a vendor of each protocol, and the doctor's visit to it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hab_ray.catalog.models import Catalog
from hab_ray.config.sweep import Sweep
from hab_ray.doctor.comparison import ComparedProtocols, compare
from hab_ray.doctor.examination import Examined, Visit
from hab_ray.doctor.questions import questions
from hab_ray.doctor.reference import at_simulator
from hab_ray.doctor.visit import run_live_check
from hab_ray.providers import load_vendor
from hab_ray.resolve import resolve
from hab_ray.stopping import Stop
from hab_ray.work import Work
from hab_simulator import Profile, simulator

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
PRICE = {"input": 2.0, "output": 8.0}
POLICY = {"poll_s": 0.1, "longest_poll_s": 0.1, "in_doubt_s": 0.5, "still_s": 0.1}
PATHS = {"openai": "/openai/v1", "anthropic": "/anthropic", "google": "/google", "xai": "/xai/v1"}
MODELS = {"anthropic": {"models": {"anthropic-one": {"sampling": "fixed"}}}}
PROFILE = {
    "batch": {"turnaround": {"kind": "fixed", "value_s": 0.3}, "clean_error_file": 0},
    "accounts": {name: {"models": {"*": {"price": PRICE}}} for name in PATHS},
}


def work_in(folder: Path) -> Work:
    """The sweep, each of whose providers has one model."""
    limits = {"concurrent": 4, "patience_s": 0.5, "timeout_s": 5}
    common = {"price": PRICE, "batch": {"discount": 0.5}, "batches": POLICY, "limits": limits}
    sweep = Sweep.model_validate(
        {
            "name": "visited",
            "run": folder / "run",
            "store": folder / "store",
            "tests": "seeds",
            "dimensions": ["ask_clarifying_questions"],
            "providers": {
                name: {"kind": name, "url": f"http://nowhere{path}", **common, **MODELS.get(name, {})}
                for name, path in PATHS.items()
            },
            "subjects": [f"{name}/{name}-one" for name in PATHS if name != "openai"],
            "judges": ["openai/openai-one"],
        }
    )
    return resolve(sweep, NOW)


def moved(work: Work, url: str) -> Work:
    """The same sweep with its providers below an address."""
    providers = {
        name: entry.model_copy(update={"url": f"{url}{PATHS[name]}"}) if name in PATHS else entry
        for name, entry in work.catalog.providers.items()
    }
    return replace(work, catalog=Catalog(providers=providers, models=work.catalog.models))


@dataclass
class Doctor:
    """Makes visits with a sweep and compares them with what the simulator says."""

    work: Work
    reference: Examined

    async def visit(self, url: str, folder: Path, wait_s: float = 20.0) -> Examined:
        """Ask everything at an address, with a store in a folder."""
        work = moved(self.work, url)
        sweep = work.sweep.model_copy(update={"store": work.sweep.store.sibling(folder.name)})
        work = replace(work, sweep=sweep)
        addresses: Mapping[str, str] = {name: entry.url or "" for name, entry in work.catalog.providers.items()}
        visit = Visit(work, questions(work), addresses.__getitem__, by_batch=True, wait_s=wait_s)
        return await asyncio.to_thread(run_live_check, visit, 5.0, Stop(), print)

    def compare(self, found: Examined) -> ComparedProtocols:
        """What differs from the simulator."""
        kinds = {name: load_vendor(entry.kind).protocol for name, entry in self.work.catalog.providers.items()}
        return compare(found, self.reference, kinds, self.work.models)


@pytest.fixture(scope="module")
def doctor(tmp_path_factory: pytest.TempPathFactory) -> Doctor:
    """A doctor who has asked the simulator."""
    work = work_in(tmp_path_factory.mktemp("doctor"))
    return Doctor(work, asyncio.run(at_simulator(work, True, NOW)))


@pytest.fixture
async def vendor(tmp_path: Path) -> AsyncIterator[str]:
    """A simulator that plays the vendors."""
    async with simulator(Profile.model_validate(PROFILE | {"folder": tmp_path})) as url:
        yield url
