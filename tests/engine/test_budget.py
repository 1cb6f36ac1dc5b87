"""The budget is hard by the vendor's own count, and a row that it leaves open is asked later and paid for once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hab_ray.calls import Call
from hab_ray.catalog import Limits
from hab_ray.engine import online
from hab_ray.engine.jobs import OpenKind, Tally
from hab_ray.engine.purse import Draw, Drawn, Purse
from hab_ray.engine.wallet import Wallet
from hab_ray.simulator import Profile, simulator
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.spending import spent_before
from tests.engine.bench import chat, engine_at, jobs, stream

LIMITS = Limits(concurrent=20, patience_s=20, timeout_s=20)
PRICED = {"x/sim": {"models": {"*": {"price": {"input": 1, "output": 2}}}}}
CALLS = [chat("a" if n % 2 else "b", f"question {n} " + "and so on " * (n % 40)) for n in range(200)]


def profile(**fields: Any) -> Profile:
    return Profile.model_validate({"accounts": PRICED, "latency": {"kind": "fixed", "value_s": 0.02}, **fields})


async def run(
    url: str, folder: Path, purse: Purse, calls: list[Call], epoch: int = 1, limits: Limits = LIMITS
) -> tuple[Tally, dict[str, Any]]:
    """Ask what is not stored yet; what the engine says and what the meter says."""
    async with engine_at(url, folder, "a", "b", limits=limits, purse=purse, epoch=epoch) as b:
        b.engine._filing._known |= set(b.stored("a", "b"))
        async with b.engine:
            await asyncio.wait_for(b.engine.complete(stream(jobs(calls))), 60)
        return b.engine.tell(), await b.meter()


async def whole_cost(folder: Path) -> int:
    async with simulator(profile()) as url:
        _, meter = await run(url, folder / "whole", Purse(None, 0), list(CALLS))
    return int(meter["nanousd"])


async def test_half_the_money_is_never_exceeded_and_more_money_completes_it(tmp_path: Path) -> None:
    whole = await whole_cost(tmp_path)
    budget = whole // 2
    async with simulator(profile()) as url:
        purse = Purse(budget, 0)
        tally, meter = await run(url, tmp_path / "store", purse, list(CALLS))
        dearest = 400_000 + 1_000_000
        assert budget - dearest <= meter["nanousd"] <= budget
        assert purse.spent == meter["nanousd"] == tally.cost_nanousd and purse.in_hand == 0
        assert tally.finished[0] + len(tally.open) == 200 and len(tally.open) > 50
        assert {row.kind for row in tally.open} == {OpenKind.BUDGET}
        assert "budget reached" in tally.open[0].reason and "budget_usd" in tally.open[0].reason
        assert (tally.reserved_nanousd, tally.lost_nanousd) == (0, 0)
        more = Purse(2 * whole, spent=purse.spent)
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
        purse = Purse(budget, 0)
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
        tally, meter = await run(url, tmp_path, Purse(10**12, 0), list(CALLS))
    assert tally.finished[0] == 200 and tally.retries > 10
    assert (tally.lost_nanousd, tally.cost_nanousd) == (0, meter["nanousd"])


async def test_what_is_stored_says_which_epoch_paid(tmp_path: Path) -> None:
    async with simulator(profile()) as url:
        first, _ = await run(url, tmp_path, Purse(None, 0), list(CALLS[:100]), epoch=1)
        second, _ = await run(url, tmp_path, Purse(None, 0), list(CALLS), epoch=2)
    folder = LocalFolder(tmp_path)
    for epoch, name in ((1, "runs/x"), (2, "runs/x"), (3, "runs/other"), (4, "runs/x")):
        text = f'{{"epoch": {epoch}, "pid": 1, "host": "h", "run": "{name}", "since": "", "released": true}}'
        folder.put(f"lease/{epoch:06d}.json", text.encode())
    assert spent_before(folder, "runs/x", 4) == first.cost_nanousd + second.cost_nanousd > 0
    assert spent_before(folder, "runs/x", 2) == first.cost_nanousd
    assert spent_before(folder, "runs/other", 9) == 0


def test_lanes_share_a_purse_and_its_sum_never_exceeds_the_budget() -> None:
    purse = Purse(budget=1000, spent=100)
    assert purse.draw(Draw(least=10, want=10_000)) == Drawn(450, 900)
    assert purse.draw(Draw(least=10, want=100)) == Drawn(100, 900)
    assert purse.draw(Draw(least=500, want=500)).granted == 0
    assert purse.draw(Draw(spent=400, returned=50, least=350, want=400)) == Drawn(350, 500)
    assert purse.draw(Draw(spent=450)) == Drawn(0, 50)
    assert (purse.spent, purse.in_hand) == (950, 0)


class Till:
    """A purse that counts how often it is asked."""

    def __init__(self, purse: Purse) -> None:
        self.purse, self.asked = purse, 0

    async def draw(self, draw: Draw) -> Drawn:
        self.asked += 1
        return self.purse.draw(draw)


async def test_money_is_drawn_for_many_calls_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    till = Till(Purse(10_000, 0))
    async with Wallet(till) as wallet:
        for _ in range(20):
            assert await wallet.reserve(10) is None
        assert till.asked == 1 and wallet.reserved == 200
        for _ in range(20):
            wallet.settle(10, 4)
    assert (till.purse.spent, till.purse.in_hand) == (80, 0)


async def test_a_call_waits_for_the_change_of_others_and_is_refused_when_there_can_be_none() -> None:
    till = Till(Purse(100, 0))
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
    assert (till.purse.spent, till.purse.in_hand) == (90, 0)
