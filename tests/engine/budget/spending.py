"""One process of a run: it holds the store's lease and sends open calls as far as the budget goes."""

import asyncio
import sys
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
from tests.engine.bench import chat, engine_at, jobs, stream

LIMITS = Limits(concurrent=20, patience_s=20, timeout_s=20)
CALLS = [chat("a", f"question {n} " + "and so on " * (n % 40)) for n in range(300)]


def before(folder: Path, epoch: int) -> OpeningBalance:
    return opening_balance(LocalFolder(folder), range(1, epoch), released_up_to=0, models=["a"])


async def spend(url: str, folder: Path, limit: int) -> None:
    lease = LocalLease.acquire(Location.of(folder), Location("runs/x"), datetime.now(UTC))
    opening = before(folder, lease.epoch)
    budget = BudgetSetup(limit, opening, Location.of(folder), lease.epoch, lease.elsewhere).open(lease.watch())
    known = Store(LocalFolder(folder)).known(["a"])
    async with engine_at(url, folder, "a", limits=LIMITS, budget=budget, epoch=lease.epoch, known=known) as b:
        async with b.engine:
            await b.engine.complete(stream(jobs(CALLS)))
    lease.release()


if __name__ == "__main__":
    asyncio.run(spend(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
