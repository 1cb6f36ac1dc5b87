"""A budget that moves while engines draw from it."""

from __future__ import annotations

from pathlib import Path

from hab_ray.engine.budget import Account, Draw, Drawn, LocalMoney, Money, Opening
from hab_ray.executors.budget import BudgetSetup, MovableBudget
from hab_ray.storage.lease import LocalLease
from tests.executors.conftest import NOW


async def test_nothing_that_was_granted_before_the_move_is_granted_again(tmp_path: Path) -> None:
    lease = LocalLease.acquire(tmp_path, Path("runs/x"), NOW)
    setup = BudgetSetup(1000, Opening(spent=100), tmp_path, lease.epoch)
    budget = MovableBudget(lambda: setup)
    assert await budget.draw(Draw("batches", 0, Account(), least=600, want=600)) == Drawn(600, 900)
    kept: list[Money] = []

    def elsewhere(given: BudgetSetup) -> Money:
        kept.append(LocalMoney(given.open()))
        return kept[0]

    budget.move(elsewhere)
    budget.move(elsewhere)
    assert len(kept) == 1
    assert (await kept[0].draw(Draw("lane", 0, Account(), least=400, want=400))).granted == 0
    assert (await kept[0].draw(Draw("lane", 1, Account(), least=300, want=300))).granted == 300
    assert (await budget.draw(Draw("batches", 1, Account(granted=600, spent=600), least=1, want=1))).granted == 0
    lease.release()


async def test_without_a_limit_everything_is_granted_and_nothing_moves() -> None:
    budget = MovableBudget(lambda: None)
    budget.move(lambda _: LocalMoney(None))  # type: ignore[arg-type]
    assert await budget.draw(Draw("lane", 0, Account(), least=5, want=7)) == Drawn(7, None)
