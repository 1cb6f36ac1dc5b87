"""A budget that moves while engines draw from it."""

from pathlib import Path

from hab_ray.config.sections import SpendingLimit
from hab_ray.engine.budget.budget import LocalBudget
from hab_ray.engine.budget.marks import BudgetSetup
from hab_ray.engine.budget.protocol import BudgetGrant, BudgetRequest, BudgetService, EngineTotals
from hab_ray.executors.budget import RunBudget
from hab_ray.location import Location
from hab_ray.storage.lease.lease import LocalLease
from tests.executors.conftest import NOW


async def test_nothing_that_was_granted_before_the_move_is_granted_again(tmp_path: Path) -> None:
    lease = LocalLease.acquire(Location.of(tmp_path), Location("runs/x"), NOW)
    budget = RunBudget(SpendingLimit(usd=900e-9), Location.of(tmp_path), lease)
    assert await budget.grant(BudgetRequest("batches", 0, EngineTotals(), least=600, want=600)) == BudgetGrant(600, 900)
    kept: list[BudgetService] = []

    def elsewhere(given: BudgetSetup) -> BudgetService:
        kept.append(LocalBudget(given.open(given.watch)))
        return kept[0]

    budget.move(elsewhere)
    budget.move(elsewhere)
    assert len(kept) == 1
    assert (await kept[0].grant(BudgetRequest("lane", 0, EngineTotals(), least=400, want=400))).granted == 0
    assert (await kept[0].grant(BudgetRequest("lane", 1, EngineTotals(), least=300, want=300))).granted == 300
    assert (
        await budget.grant(BudgetRequest("batches", 1, EngineTotals(granted=600, spent=600), least=1, want=1))
    ).granted == 0
    lease.release()


async def test_without_a_limit_everything_is_granted_and_nothing_moves(tmp_path: Path) -> None:
    budget = RunBudget(None, Location.of(tmp_path), LocalLease.acquire(Location.of(tmp_path), Location("runs/x"), NOW))
    budget.move(lambda _: LocalBudget(None))  # type: ignore[arg-type]
    assert await budget.grant(BudgetRequest("lane", 0, EngineTotals(), least=5, want=7)) == BudgetGrant(7, None)
