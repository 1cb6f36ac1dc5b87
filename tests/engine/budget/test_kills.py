"""A budget holds while processes are killed repeatedly: calls in flight are never forgotten."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from hab_ray.catalog.models import Limits
from hab_ray.engine.books import opening_balance
from hab_ray.engine.budget.budget import OpeningBalance
from hab_ray.engine.budget.marks import BudgetSetup
from hab_ray.location import Location
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.lease.lease import LocalLease
from hab_ray.storage.replies.store import Store
from tests.conftest import Vendor
from tests.engine.bench import chat, engine_at, jobs, stream

KILLS = 4
LIMITS = Limits(concurrent=20, patience_s=20, timeout_s=20)
PRICED = {"x/sim": {"models": {"*": {"price": {"input": 1, "output": 2}}}}}
CALLS = [chat("a", f"question {n} " + "and so on " * (n % 40)) for n in range(300)]
DEAREST = 1_500_000


def before(folder: Path, epoch: int) -> OpeningBalance:
    return opening_balance(LocalFolder(folder), range(1, epoch), released_up_to=0, models=["a"])


def spend(url: str, folder: Path, limit: int) -> None:
    """One process of a run: it holds the store's lease and sends open calls as far as the budget goes."""
    asyncio.run(_spend(url, folder, limit))


async def _spend(url: str, folder: Path, limit: int) -> None:
    lease = LocalLease.acquire(Location.of(folder), Location("runs/x"), datetime.now(UTC))
    opening = before(folder, lease.epoch)
    budget = BudgetSetup(limit, opening, Location.of(folder), lease.epoch, lease.elsewhere).open(lease.watch())
    known = Store(LocalFolder(folder)).known(["a"])
    async with engine_at(url, folder, "a", limits=LIMITS, budget=budget, epoch=lease.epoch, known=known) as b:
        async with b.engine:
            await b.engine.complete(stream(jobs(CALLS)))
    lease.release()


def test_kills(tmp_path: Path, vendor: Callable[..., Vendor]) -> None:
    """However often a run is killed, it never spends more than its budget."""
    sim = vendor(accounts=PRICED, latency={"kind": "fixed", "value_s": 0.4})
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.engine.budget.test_kills"])
    draw = random.Random(7)
    budget = 100_000_000
    for kill in range(KILLS):
        received = sim.meter()["received"]
        process = processes.Process(target=spend, args=(sim.url, tmp_path, budget))
        process.start()
        while process.is_alive() and sim.meter()["received"] < received + 21:
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 0.5))
        process.kill()
        process.join()
        stood = before(tmp_path, kill + 2)
        assert sim.meter()["nanousd"] <= stood.spent <= budget
        assert stood.stranded <= (kill + 1) * 2 * LIMITS.concurrent * DEAREST
    assert before(tmp_path, KILLS + 1).stranded > 0
    enough = sim.meter()["nanousd"] + 300 * DEAREST // 4 + before(tmp_path, KILLS + 1).stranded
    last = processes.Process(target=spend, args=(sim.url, tmp_path, enough))
    last.start()
    last.join(60)
    assert last.exitcode == 0
    assert sim.meter()["nanousd"] <= before(tmp_path, KILLS + 2).spent <= enough
    assert len(set(Store(LocalFolder(tmp_path)).known(["a"]))) == len(CALLS)
