"""The budget is hard by the vendor's own count, and a row left open is sent later and paid for once."""

import asyncio
import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hab_ray.calls import Call
from hab_ray.catalog.models import Limits
from hab_ray.engine.budget.budget import SILENT_S, Budget, HighWaterMark, LocalBudget, OpeningBalance
from hab_ray.engine.budget.client import BatchBudgetClient, BudgetClient
from hab_ray.engine.budget.protocol import BudgetGrant, BudgetRequest, EngineTotals
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.engine.online import retries
from hab_ray.errors import ConfigError, LeaseStale
from hab_ray.location import Location
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.registry import Registry
from hab_ray.storage.replies.store import Store
from hab_ray.storage.spending import keep_lost, online_spending
from hab_simulator import Profile, simulator
from tests.engine.bench import budget_of, chat, engine_at, jobs, stream

LIMITS = Limits(concurrent=20, patience_s=20, timeout_s=20)
PRICED = {"x/sim": {"models": {"*": {"price": {"input": 1, "output": 2}}}}}
CALLS = [chat("a" if n % 2 else "b", f"question {n} " + "and so on " * (n % 40)) for n in range(200)]


def profile(**fields: Any) -> Profile:
    return Profile.model_validate({"accounts": PRICED, "latency": {"kind": "fixed", "value_s": 0.02}, **fields})


async def run(
    url: str, folder: Path, budget: Budget, calls: list[Call], epoch: int = 1, limits: Limits = LIMITS
) -> tuple[Counters, dict[str, Any]]:
    """Complete the calls that are not stored yet; return the engine's counters and the meter."""
    known = Store(LocalFolder(folder)).known(["a", "b"])
    async with engine_at(url, folder, "a", "b", limits=limits, budget=budget, epoch=epoch, known=known) as b:
        async with b.engine:
            await asyncio.wait_for(b.engine.complete(stream(jobs(calls))), 60)
        return b.engine.snapshot(), await b.meter()


async def whole_cost(folder: Path) -> int:
    async with simulator(profile()) as url:
        _, meter = await run(url, folder / "whole", budget_of(None), list(CALLS))
    return int(meter["nanousd"])


async def test_half_the_money(tmp_path: Path) -> None:
    """Half the money is never exceeded; with more money the same command completes the work."""
    whole = await whole_cost(tmp_path)
    budget = whole // 2
    async with simulator(profile()) as url:
        kept = budget_of(budget)
        counters, meter = await run(url, tmp_path / "store", kept, list(CALLS))
        dearest = 400_000 + 1_000_000
        assert budget - dearest <= meter["nanousd"] <= budget
        assert kept.spent == meter["nanousd"] == counters.cost_nanousd and kept.held == 0
        assert counters.finished[0] + len(counters.open) == 200 and len(counters.open) > 50
        assert {row.kind for row in counters.open} == {OpenKind.BUDGET}
        assert "budget reached" in counters.open[0].reason and "was left" in counters.open[0].reason
        assert (counters.reserved_nanousd, counters.lost_nanousd) == (0, 0)
        more = budget_of(2 * whole, spent=kept.spent)
        counters, meter = await run(url, tmp_path / "store", more, list(CALLS), epoch=2)
        assert counters.finished[0] == 200 and not counters.open
        assert (meter["billed"], meter["billed_more_than_once"]["bodies"]) == (200, 0)
        assert meter["nanousd"] == whole == more.spent


async def test_unknown_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of unknown cost count as spent in full."""
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.01)
    faults = [
        {"kind": "reset", "billed": True, "probability": 0.2},
        {"kind": "hang", "billed": True, "probability": 0.03},
        {"kind": "truncated", "probability": 0.03},
        {"kind": "status", "status": 500, "probability": 0.05},
    ]
    budget = await whole_cost(tmp_path) // 2
    async with simulator(profile(faults=faults, seed=5)) as url:
        kept = budget_of(budget)
        impatient = Limits(concurrent=20, patience_s=20, timeout_s=0.7)
        counters, meter = await run(url, tmp_path / "store", kept, list(CALLS), limits=impatient)
        assert meter["lost_after_billing"] > 0 and counters.lost_nanousd > 0
        assert meter["nanousd"] <= kept.spent <= budget
        assert kept.spent == counters.cost_nanousd + counters.lost_nanousd
        assert {row.kind for row in counters.open} == {OpenKind.BUDGET}


async def test_free_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals that cost nothing release their reservations."""
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.01)
    faults = [
        {"kind": "status", "status": 500, "probability": 0.1},
        {"kind": "status", "status": 429, "retry_after_s": 0.01, "probability": 0.1},
    ]
    async with simulator(profile(faults=faults)) as url:
        counters, meter = await run(url, tmp_path, budget_of(10**12), list(CALLS))
    assert counters.finished[0] == 200 and counters.retries > 10
    assert (counters.lost_nanousd, counters.cost_nanousd) == (0, meter["nanousd"])


def held(folder: LocalFolder, epoch: int, run: str) -> None:
    text = f'{{"epoch": {epoch}, "pid": 1, "host": "h", "run": "{run}", "since": "", "released": true}}'
    folder.put(f"lease/{epoch:06d}.json", text.encode())


async def test_paying_epoch(tmp_path: Path) -> None:
    """Stored outcomes say which epoch paid for them."""
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


def test_epochs_of_a_run(tmp_path: Path) -> None:
    """Epochs belong to a run by its id, those of old stores by its folder."""
    folder = LocalFolder(tmp_path / "store")
    registry = Registry(Location.of(tmp_path / "store"))
    for epoch, name in ((1, "../runs/x"), (2, "../runs/other"), (3, "../runs/x")):
        held(folder, epoch, name)
    now = datetime.now(UTC)
    assert registry.epochs("x1", Location.of(tmp_path / "runs/x")) == {1, 3}
    registry.enter("x1", Location.of(tmp_path / "runs/x"), now)
    held(folder, 4, "../runs/moved")
    registry.enter("x1", Location.of(tmp_path / "runs/moved"), now)
    assert registry.epochs("x1", Location.of(tmp_path / "runs/elsewhere")) == {1, 3, 4}
    assert registry.epochs("new", Location.of(tmp_path / "runs/x")) == set()
    assert registry.epochs("o1", Location.of(tmp_path / "runs/other")) == {2}


def test_shared_budget() -> None:
    """The grants to all engines together never exceed the budget."""
    budget = budget_of(1000, spent=100)
    assert budget.grant(BudgetRequest("a", 0, EngineTotals(), least=10, want=10_000)) == BudgetGrant(450, 900)
    assert budget.grant(BudgetRequest("b", 0, EngineTotals(), least=10, want=100)) == BudgetGrant(100, 900)
    assert budget.grant(BudgetRequest("b", 1, EngineTotals(granted=100), least=500, want=500)).granted == 0
    spent = EngineTotals(granted=450, returned=50, spent=400)
    assert budget.grant(BudgetRequest("a", 1, spent, least=350, want=400)) == BudgetGrant(350, 500)
    assert budget.grant(BudgetRequest("a", 2, EngineTotals(800, 50, 750))) == BudgetGrant(0, 150)
    assert (budget.spent, budget.held) == (850, 100)


def test_repeated_request() -> None:
    """A repeated request gets the same answer and changes nothing."""
    budget = budget_of(1000)
    draw = BudgetRequest("a", 0, EngineTotals(), least=10, want=300)
    assert budget.grant(draw) == budget.grant(draw) == BudgetGrant(300, 1000)
    assert budget.held == 300
    later = BudgetRequest("a", 1, EngineTotals(granted=300, spent=100))
    assert budget.grant(later) == BudgetGrant(0, 900)
    assert budget.grant(draw) == BudgetGrant(0, 900)
    assert (budget.spent, budget.held) == (100, 200)


def test_mark() -> None:
    """The mark is durable before money is granted, and never far above it."""
    marks: list[HighWaterMark] = []
    budget = Budget(10_000, OpeningBalance(), keep=marks.append)
    account = EngineTotals()
    for sequence in range(200):
        in_flight = account.held // 2
        drawn = budget.grant(
            BudgetRequest("a", sequence, account, in_flight, least=1, want=max(1, 1000 - account.held))
        )
        account = replace(account, granted=account.granted + drawn.granted)
        assert account.outlay <= marks[-1].outlay <= account.outlay + max(1, in_flight)
        account = replace(account, spent=account.spent + 20)
    assert len(marks) < 50
    budget.grant(BudgetRequest("a", 200, replace(account, returned=account.held)))
    assert marks[-1] == HighWaterMark(account.spent, 0, 0)


def test_unwritable_mark() -> None:
    """Nothing is granted if the mark cannot be written."""

    def full(_: HighWaterMark) -> None:
        raise OSError("no space left")

    budget = Budget(1000, OpeningBalance(), keep=full)
    with pytest.raises(OSError, match="no space"):
        budget.grant(BudgetRequest("a", 0, EngineTotals(), least=10, want=10))
    assert budget.held == 0


def test_batch_money() -> None:
    """A batch's money leaves the mark with its intent, and is released when it is collected."""
    marks: list[HighWaterMark] = []
    budget = Budget(1000, OpeningBalance(spent=100, committed=200), keep=marks.append)
    assert budget.grant(BudgetRequest("b", 0, EngineTotals(), least=600, want=600)) == BudgetGrant(600, 900)
    assert marks[-1] == HighWaterMark(600, 200, 0)
    assert budget.grant(
        BudgetRequest("b", 1, EngineTotals(granted=600, committed=600), least=101, want=101)
    ) == BudgetGrant(0, 900)
    assert marks[-1] == HighWaterMark(0, 800, 0)
    collected = EngineTotals(granted=600, committed=600, collected=200, cost=50)
    assert budget.grant(BudgetRequest("b", 2, collected, least=100, want=100)) == BudgetGrant(100, 850)
    assert (marks[-1], budget.spent, budget.committed) == (HighWaterMark(100, 600, 50), 150, 600)


def test_collected_before_first_report() -> None:
    """The first report of an engine may say that it has collected an earlier process's batch."""
    marks: list[HighWaterMark] = []
    budget = Budget(1000, OpeningBalance(spent=100, committed=200), keep=marks.append)
    assert budget.grant(
        BudgetRequest("b", 0, EngineTotals(collected=200, cost=50), least=850, want=850)
    ) == BudgetGrant(850, 850)
    assert (marks[-1], budget.spent, budget.committed) == (HighWaterMark(850, 0, 50), 150, 0)


async def test_idle_money() -> None:
    """No call waits for money that open batches of unused models or stopped providers keep reserved."""
    budget = Budget(1000, OpeningBalance(committed=300, out_of_reach=200), keep=lambda _: None)
    async with BatchBudgetClient(LocalBudget(budget)) as stopped, BatchBudgetClient(LocalBudget(budget)) as other:
        stopped.adopt(300)
        assert await other.reserve(400) is None
        waiting = asyncio.create_task(other.reserve(300))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        stopped.give_up_batches()
        other.settle(400, 400)
        refusal = await asyncio.wait_for(waiting, 5)
        assert refusal is not None and "budget reached" in refusal


def test_restarted_budget() -> None:
    """A restarted budget withholds what its mark covers until engines have reported."""
    marks: list[HighWaterMark] = []
    opening = OpeningBalance(spent=100, committed=50)
    before = Budget(1000, opening, keep=marks.append)
    assert before.grant(BudgetRequest("a", 0, EngineTotals(), least=300, want=300)).granted == 300
    assert before.grant(BudgetRequest("b", 0, EngineTotals(), least=200, want=200)).granted == 200
    before.grant(BudgetRequest("b", 1, EngineTotals(granted=200, committed=200)))
    again = Budget(1000, opening, keep=marks.append, mark=marks[-1])
    assert again.grant(BudgetRequest("c", 0, EngineTotals(), least=351, want=351)) == BudgetGrant(0, 600)
    assert again.grant(BudgetRequest("c", 1, EngineTotals(), least=350, want=350)) == BudgetGrant(350, 600)
    assert again.grant(BudgetRequest("a", 1, EngineTotals(granted=300, spent=50))) == BudgetGrant(0, 850)
    assert again.grant(BudgetRequest("b", 1, EngineTotals(granted=200, committed=200))) == BudgetGrant(0, 850)
    assert (again.spent, again.committed, again.held) == (150, 250, 600)


@pytest.mark.parametrize("first", ["collected", "submitted"])
def test_batches_after_a_restart(first: str) -> None:
    """One engine has collected an earlier process's batch, another has one open, whichever of them reports first."""
    marks: list[str] = []
    reports = {
        "collected": BudgetRequest("collected", 0, EngineTotals(collected=100, cost=40), by_batch=True),
        "submitted": BudgetRequest("submitted", 0, EngineTotals(), least=90, want=90, by_batch=True),
    }

    def restarted(mark: HighWaterMark | None) -> Budget:
        return Budget(200, OpeningBalance(committed=100), lambda m: marks.append(json.dumps(asdict(m))), mark)

    before = restarted(None)
    assert [before.grant(each).granted for each in reports.values()] == [0, 90]
    reports["submitted"] = BudgetRequest("submitted", 1, EngineTotals(granted=90, committed=90), by_batch=True)
    again = restarted(HighWaterMark(**json.loads(marks[-1])))
    again.grant(reports.pop(first))
    assert (again.spent, again.committed) == (40, 90)
    assert again.grant(BudgetRequest("online", 0, EngineTotals(), least=71, want=71)).granted == 0
    again.grant(reports.popitem()[1])
    assert (again.spent, again.committed, again.held) == (40, 90, 0)


def test_mark_of_an_older_version() -> None:
    """A mark without the engines' parts counts until they have reported."""
    again = Budget(200, OpeningBalance(), lambda _: None, HighWaterMark(outlay=0, committed=90, cost=40))
    again.grant(BudgetRequest("online", 0, EngineTotals()))
    assert (again.spent, again.committed) == (40, 90)
    again.grant(BudgetRequest("p", 0, EngineTotals(granted=110, committed=110, collected=20, cost=40), by_batch=True))
    assert (again.spent, again.committed) == (40, 90)


def test_dead_engine() -> None:
    """Money held by a silent engine is waited for only for a time, and never granted to another engine."""
    now = [0.0]
    budget = Budget(1000, OpeningBalance(), keep=lambda _: None, clock=lambda: now[0])
    assert budget.grant(BudgetRequest("dies", 0, EngineTotals(), least=600, want=600)).granted == 600
    assert budget.grant(BudgetRequest("b", 0, EngineTotals(), least=500, want=500)) == BudgetGrant(0, 1000)
    now[0] = SILENT_S
    assert budget.grant(BudgetRequest("b", 1, EngineTotals(), least=500, want=500)) == BudgetGrant(0, 1000)
    now[0] += 1
    assert budget.grant(BudgetRequest("b", 2, EngineTotals(), least=500, want=500)) == BudgetGrant(0, 400)
    alive = BudgetRequest("dies", 1, EngineTotals(granted=600, spent=100, returned=500))
    assert budget.grant(alive) == BudgetGrant(0, 900)
    assert budget.grant(BudgetRequest("b", 3, EngineTotals(), least=500, want=500)) == BudgetGrant(500, 900)


async def test_waiting_for_a_dead_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waiting for a dead engine's money is refused; money of a living engine is waited for."""
    monkeypatch.setattr("hab_ray.engine.budget.budget.SILENT_S", 0.4)
    monkeypatch.setattr("hab_ray.engine.budget.client.ALIVE_EVERY_S", 0.05)
    monkeypatch.setattr("hab_ray.engine.budget.client.REBALANCE_EVERY_S", 0.05)
    service = LocalBudget(budget_of(100))
    dead = BudgetRequest("dead", 0, EngineTotals(), least=30, want=30)
    assert (await service.grant(dead)).granted == 30
    async with BudgetClient(service) as living, BudgetClient(service) as client:
        assert await living.reserve(50) is None
        waiting = asyncio.create_task(client.reserve(60))
        await asyncio.sleep(1.0)
        assert not waiting.done()
        living.settle(50, 20)
        refusal = await asyncio.wait_for(waiting, 5)
        assert refusal is not None and "budget reached" in refusal


class CountingBudget:
    """A budget that counts requests."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.asked = budget, 0

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        self.asked += 1
        return self.budget.grant(request)


async def test_requests_in_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Money is requested for many calls at once, and unneeded money is returned."""
    service = CountingBudget(budget_of(10_000))
    async with BudgetClient(service) as client:
        for _ in range(20):
            assert await client.reserve(10) is None
        assert service.asked <= 8 and client.reserved == 200
        for _ in range(20):
            client.settle(10, 4)
    assert (service.budget.spent, service.budget.held) == (80, 0)


class StaleBudget(CountingBudget):
    """A budget that refuses the first requests because the lease is stale."""

    refuses = 3

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        if self.refuses:
            self.refuses -= 1
            raise LeaseStale("not renewed")
        return await super().grant(request)


async def test_stale_lease() -> None:
    """A call waits for its money while the lease is stale, and the money is granted once."""
    service = StaleBudget(budget_of(100))
    async with BudgetClient(service) as client:
        assert await asyncio.wait_for(client.reserve(60), 5) is None
        assert service.refuses == 0 and client.reserved == 60
        client.settle(60, 60)
    assert (service.budget.spent, service.budget.held) == (60, 0)


class UnwritableMark(CountingBudget):
    """A budget whose next request fails, because the mark cannot be written."""

    error: Exception | None = None

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        if self.error:
            error, self.error = self.error, None
            raise error
        return await super().grant(request)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ConfigError("[ExpiredToken]")])
async def test_failed_report(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose report fails once reports again: others wait for the money that it returns."""
    monkeypatch.setattr("hab_ray.engine.budget.client.REBALANCE_EVERY_S", 0.02)
    service = UnwritableMark(budget_of(100))
    async with BudgetClient(service) as client:
        assert await client.reserve(60) is None
        service.error = error
        client.settle(60, 20)
        async with asyncio.timeout(5):
            while service.budget.spent != 20 or service.budget.held:
                await asyncio.sleep(0.01)


async def test_waits_for_released_money() -> None:
    """A call waits for money that others release, and is refused once no money can be released any more."""
    service = CountingBudget(budget_of(100))
    async with BudgetClient(service, waits_after_s=0.02) as client:
        assert await client.reserve(70) is None and client.waiting.smallest == 0
        waiting = asyncio.create_task(client.reserve(60))
        more = asyncio.create_task(client.reserve(65))
        await asyncio.sleep(0.05)
        assert not waiting.done() and client.waiting.smallest == 60
        more.cancel()
        client.settle(70, 30)
        assert await asyncio.wait_for(waiting, 2) is None
        assert client.waiting.smallest == 0
        client.lose(60)
        refusal = await asyncio.wait_for(client.reserve(11), 2)
        assert refusal is not None and "budget reached" in refusal
        asked = service.asked
        assert client.refusal(11) == refusal and client.refusal(10) is None and service.asked == asked
        assert await client.reserve(10) is None
        client.release(10)
    assert (service.budget.spent, service.budget.held) == (90, 0)
