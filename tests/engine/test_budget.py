"""The budget is hard by the vendor's own count, and a row that it leaves open is asked later and paid for once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hab_ray.calls import Call
from hab_ray.catalog import Limits
from hab_ray.engine import online
from hab_ray.engine.budget import Account, Budget, Draw, Drawn, LocalMoney, Mark, Opening
from hab_ray.engine.jobs import OpenKind, Tally
from hab_ray.engine.wallet import Wallet
from hab_ray.location import Location
from hab_ray.simulator import Profile, simulator
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.registry import Registry
from hab_ray.storage.spending import keep_lost, online_spending
from hab_ray.storage.store import Store
from tests.engine.bench import budget_of, chat, engine_at, jobs, stream

LIMITS = Limits(concurrent=20, patience_s=20, timeout_s=20)
PRICED = {"x/sim": {"models": {"*": {"price": {"input": 1, "output": 2}}}}}
CALLS = [chat("a" if n % 2 else "b", f"question {n} " + "and so on " * (n % 40)) for n in range(200)]


def profile(**fields: Any) -> Profile:
    return Profile.model_validate({"accounts": PRICED, "latency": {"kind": "fixed", "value_s": 0.02}, **fields})


async def run(
    url: str, folder: Path, budget: Budget, calls: list[Call], epoch: int = 1, limits: Limits = LIMITS
) -> tuple[Tally, dict[str, Any]]:
    """Ask what is not stored yet; what the engine says and what the meter says."""
    known = Store(LocalFolder(folder)).known(["a", "b"])
    async with engine_at(url, folder, "a", "b", limits=limits, budget=budget, epoch=epoch, known=known) as b:
        async with b.engine:
            await asyncio.wait_for(b.engine.complete(stream(jobs(calls))), 60)
        return b.engine.tell(), await b.meter()


async def whole_cost(folder: Path) -> int:
    async with simulator(profile()) as url:
        _, meter = await run(url, folder / "whole", budget_of(None), list(CALLS))
    return int(meter["nanousd"])


async def test_half_the_money_is_never_exceeded_and_more_money_completes_it(tmp_path: Path) -> None:
    whole = await whole_cost(tmp_path)
    budget = whole // 2
    async with simulator(profile()) as url:
        purse = budget_of(budget)
        tally, meter = await run(url, tmp_path / "store", purse, list(CALLS))
        dearest = 400_000 + 1_000_000
        assert budget - dearest <= meter["nanousd"] <= budget
        assert purse.spent == meter["nanousd"] == tally.cost_nanousd and purse.in_hand == 0
        assert tally.finished[0] + len(tally.open) == 200 and len(tally.open) > 50
        assert {row.kind for row in tally.open} == {OpenKind.BUDGET}
        assert "budget reached" in tally.open[0].reason and "budget_usd" in tally.open[0].reason
        assert (tally.reserved_nanousd, tally.lost_nanousd) == (0, 0)
        more = budget_of(2 * whole, spent=purse.spent)
        tally, meter = await run(url, tmp_path / "store", more, list(CALLS), epoch=2)
        assert tally.finished[0] == 200 and not tally.open
        assert (meter["billed"], meter["billed_more_than_once"]["bodies"]) == (200, 0)
        assert meter["nanousd"] == whole == more.spent


async def test_calls_whose_bill_is_unknown_count_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "FIRST_BACKOFF_S", 0.01)
    faults = [
        {"kind": "reset", "billed": True, "probability": 0.05},
        {"kind": "hang", "billed": True, "probability": 0.03},
        {"kind": "truncated", "probability": 0.03},
        {"kind": "status", "status": 500, "probability": 0.05},
    ]
    budget = await whole_cost(tmp_path) // 2
    async with simulator(profile(faults=faults, seed=5)) as url:
        purse = budget_of(budget)
        impatient = Limits(concurrent=20, patience_s=20, timeout_s=0.7)
        tally, meter = await run(url, tmp_path / "store", purse, list(CALLS), limits=impatient)
        assert meter["lost_after_billing"] > 0 and tally.lost_nanousd > 0
        assert meter["nanousd"] <= purse.spent <= budget
        assert purse.spent == tally.cost_nanousd + tally.lost_nanousd
        assert {row.kind for row in tally.open} == {OpenKind.BUDGET}


async def test_refusals_that_cost_nothing_leave_the_money(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "FIRST_BACKOFF_S", 0.01)
    faults = [
        {"kind": "status", "status": 500, "probability": 0.1},
        {"kind": "status", "status": 429, "retry_after_s": 0.01, "probability": 0.1},
    ]
    async with simulator(profile(faults=faults)) as url:
        tally, meter = await run(url, tmp_path, budget_of(10**12), list(CALLS))
    assert tally.finished[0] == 200 and tally.retries > 10
    assert (tally.lost_nanousd, tally.cost_nanousd) == (0, meter["nanousd"])


def held(folder: LocalFolder, epoch: int, run: str) -> None:
    text = f'{{"epoch": {epoch}, "pid": 1, "host": "h", "run": "{run}", "since": "", "released": true}}'
    folder.put(f"lease/{epoch:06d}.json", text.encode())


async def test_what_is_stored_says_which_epoch_paid(tmp_path: Path) -> None:
    async with simulator(profile()) as url:
        first, _ = await run(url, tmp_path, budget_of(None), list(CALLS[:100]), epoch=1)
        second, _ = await run(url, tmp_path, budget_of(None), list(CALLS), epoch=2)
    folder = LocalFolder(tmp_path)
    assert online_spending(folder, [1, 2], 0).spent == first.cost_nanousd + second.cost_nanousd > 0
    assert online_spending(folder, [1], 0).spent == first.cost_nanousd
    assert online_spending(folder, [3], 0).spent == 0
    keep_lost(folder, 1, 70)
    folder.put("budget/000001.json", b'{"outlay": %d, "committed": 0, "cost": 0}' % (first.cost_nanousd + 100))
    assert online_spending(folder, [1], 0).spent == first.cost_nanousd + 100
    assert online_spending(folder, [1], 0).stranded == 30
    assert online_spending(folder, [1], 2).spent == first.cost_nanousd + 70


def test_epochs_belong_to_a_run_by_its_id_and_older_ones_by_its_folder(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "store")
    registry = Registry(folder, Location.of(tmp_path / "store"))
    for epoch, name in ((1, "../runs/x"), (2, "../runs/other"), (3, "../runs/x")):
        held(folder, epoch, name)
    now = datetime.now(UTC)
    assert registry.epochs("x1", Location.of(tmp_path) / "runs/x") == {1, 3}
    registry.enter("x1", Location.of(tmp_path) / "runs/x", now)
    held(folder, 4, "../runs/moved")
    registry.enter("x1", Location.of(tmp_path) / "runs/moved", now)
    assert registry.epochs("x1", Location.of(tmp_path) / "runs/elsewhere") == {1, 3, 4}
    assert registry.epochs("new", Location.of(tmp_path) / "runs/x") == set()
    assert registry.epochs("o1", Location.of(tmp_path) / "runs/other") == {2}


def test_engines_share_a_budget_and_their_sum_never_exceeds_it() -> None:
    budget = budget_of(1000, spent=100)
    assert budget.draw(Draw("a", 0, Account(), least=10, want=10_000)) == Drawn(450, 900)
    assert budget.draw(Draw("b", 0, Account(), least=10, want=100)) == Drawn(100, 900)
    assert budget.draw(Draw("b", 1, Account(granted=100), least=500, want=500)).granted == 0
    spent = Account(granted=450, returned=50, spent=400)
    assert budget.draw(Draw("a", 1, spent, least=350, want=400)) == Drawn(350, 500)
    assert budget.draw(Draw("a", 2, Account(800, 50, 750))) == Drawn(0, 150)
    assert (budget.spent, budget.in_hand) == (850, 100)


def test_a_draw_that_is_sent_again_changes_nothing() -> None:
    budget = budget_of(1000)
    draw = Draw("a", 0, Account(), least=10, want=300)
    assert budget.draw(draw) == budget.draw(draw) == Drawn(300, 1000)
    assert budget.in_hand == 300
    later = Draw("a", 1, Account(granted=300, spent=100))
    assert budget.draw(later) == Drawn(0, 900)
    assert budget.draw(draw) == Drawn(0, 900)
    assert (budget.spent, budget.in_hand) == (100, 200)


def test_the_mark_is_durable_before_money_is_granted_and_never_far_above_it() -> None:
    marks: list[Mark] = []
    budget = Budget(10_000, Opening(), keep=marks.append)
    account = Account()
    for sequence in range(200):
        in_flight = account.in_hand // 2
        drawn = budget.draw(Draw("a", sequence, account, in_flight, least=1, want=max(1, 1000 - account.in_hand)))
        account = replace(account, granted=account.granted + drawn.granted)
        assert account.outlay <= marks[-1].outlay <= account.outlay + max(1, in_flight)
        account = replace(account, spent=account.spent + 20)
    assert len(marks) < 50
    budget.draw(Draw("a", 200, replace(account, returned=account.in_hand)))
    assert marks[-1] == Mark(account.spent, 0, 0)


def test_a_mark_that_cannot_be_written_grants_nothing() -> None:
    def full(_: Mark) -> None:
        raise OSError("no space left")

    budget = Budget(1000, Opening(), keep=full)
    with pytest.raises(OSError, match="no space"):
        budget.draw(Draw("a", 0, Account(), least=10, want=10))
    assert budget.in_hand == 0


def test_money_of_a_batch_leaves_the_mark_with_its_intent_and_comes_back_when_it_is_collected() -> None:
    marks: list[Mark] = []
    budget = Budget(1000, Opening(spent=100, committed=200), keep=marks.append)
    assert budget.draw(Draw("b", 0, Account(), least=600, want=600)) == Drawn(600, 900)
    assert marks[-1] == Mark(600, 200, 0)
    assert budget.draw(Draw("b", 1, Account(granted=600, committed=600), least=101, want=101)) == Drawn(0, 900)
    assert marks[-1] == Mark(0, 800, 0)
    collected = Account(granted=600, committed=600, collected=200, cost=50)
    assert budget.draw(Draw("b", 2, collected, least=100, want=100)) == Drawn(100, 850)
    assert (marks[-1], budget.spent, budget.committed) == (Mark(100, 600, 50), 150, 600)


def test_an_engine_that_first_reports_when_it_has_collected_a_batch_of_an_earlier_process() -> None:
    marks: list[Mark] = []
    budget = Budget(1000, Opening(spent=100, committed=200), keep=marks.append)
    assert budget.draw(Draw("b", 0, Account(collected=200, cost=50), least=850, want=850)) == Drawn(850, 850)
    assert (marks[-1], budget.spent, budget.committed) == (Mark(850, 0, 50), 150, 0)


async def test_nobody_waits_for_money_that_does_not_come_back() -> None:
    """Batches of models that are not used here, and of a provider that was stopped, keep what is set aside for them."""
    budget = Budget(1000, Opening(committed=300, out_of_reach=200), keep=lambda _: None)
    async with Wallet(LocalMoney(budget)) as stopped, Wallet(LocalMoney(budget)) as other:
        stopped.take_up(300)
        assert await other.reserve(400) is None
        waiting = asyncio.create_task(other.reserve(300))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        stopped.give_up_batches()
        other.settle(400, 400)
        refusal = await asyncio.wait_for(waiting, 5)
        assert refusal is not None and "budget reached" in refusal


def test_a_budget_that_is_started_again_holds_what_its_mark_covers_until_engines_report() -> None:
    marks: list[Mark] = []
    opening = Opening(spent=100, committed=50)
    before = Budget(1000, opening, keep=marks.append)
    assert before.draw(Draw("a", 0, Account(), least=300, want=300)).granted == 300
    assert before.draw(Draw("b", 0, Account(), least=200, want=200)).granted == 200
    before.draw(Draw("b", 1, Account(granted=200, committed=200)))
    again = Budget(1000, opening, keep=marks.append, mark=marks[-1])
    assert again.draw(Draw("c", 0, Account(), least=351, want=351)) == Drawn(0, 600)
    assert again.draw(Draw("c", 1, Account(), least=350, want=350)) == Drawn(350, 600)
    assert again.draw(Draw("a", 1, Account(granted=300, spent=50))) == Drawn(0, 850)
    assert again.draw(Draw("b", 1, Account(granted=200, committed=200))) == Drawn(0, 850)
    assert (again.spent, again.committed, again.in_hand) == (150, 250, 600)


class Till:
    """A budget that counts how often it is asked."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.asked = budget, 0

    async def draw(self, draw: Draw) -> Drawn:
        self.asked += 1
        return self.budget.draw(draw)


async def test_money_is_drawn_for_many_calls_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    till = Till(budget_of(10_000))
    async with Wallet(till) as wallet:
        for _ in range(20):
            assert await wallet.reserve(10) is None
        assert till.asked <= 8 and wallet.reserved == 200
        for _ in range(20):
            wallet.settle(10, 4)
    assert (till.budget.spent, till.budget.in_hand) == (80, 0)


async def test_a_call_waits_for_the_change_of_others_and_is_refused_when_there_can_be_none() -> None:
    till = Till(budget_of(100))
    async with Wallet(till) as wallet:
        assert await wallet.reserve(70) is None
        waiting = asyncio.create_task(wallet.reserve(60))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        wallet.settle(70, 30)
        assert await asyncio.wait_for(waiting, 2) is None
        wallet.lose(60)
        refusal = await asyncio.wait_for(wallet.reserve(11), 2)
        assert refusal is not None and "budget reached" in refusal
        asked = till.asked
        assert wallet.refusal(11) == refusal and wallet.refusal(10) is None and till.asked == asked
        assert await wallet.reserve(10) is None
        wallet.release(10)
    assert (till.budget.spent, till.budget.in_hand) == (90, 0)
