"""The money that a crash would strand at any moment of a steady flow of calls."""

import asyncio

from hab_ray.engine.budget.budget import SILENT_S, Budget, HighWaterMark, LocalBudget, OpeningBalance
from hab_ray.engine.budget.client import BatchBudgetClient, BudgetClient
from hab_ray.engine.budget.protocol import BudgetRequest, EngineTotals

BOUND, COST, SLOTS, CALLS = 1_000_000, 200_000, 20, 400


async def test_the_mark_is_above_what_is_spent_by_the_calls_in_flight_and_two_fifths_more_at_most() -> None:
    marks: list[HighWaterMark] = []
    budget = Budget(10**12, OpeningBalance(), marks.append)
    calls = iter(range(CALLS))
    stranded: list[int] = []

    async def slot(client: BudgetClient) -> None:
        for _ in calls:
            assert await client.reserve(BOUND) is None
            if client.reserved == SLOTS * BOUND:
                stranded.append(marks[-1].outlay - client.spent)
            await asyncio.sleep(0.001)
            client.settle(BOUND, COST)

    async with BudgetClient(LocalBudget(budget)) as client:
        await asyncio.gather(*(slot(client) for _ in range(SLOTS)))
    assert len(stranded) > CALLS // 4
    assert max(stranded) <= 1.4 * SLOTS * BOUND


def granted(budget: Budget, engine: str, sequence: int, totals: EngineTotals, in_flight: int, want: int = 0) -> int:
    return budget.grant(BudgetRequest(engine, sequence, totals, in_flight, least=want, want=want)).granted


def test_a_keeper_that_dies_strands_nothing_of_engines_that_live() -> None:
    """One engine has returned money since the mark was written; the other died, and counts for all that it may hold."""
    marks: list[HighWaterMark] = []
    before = Budget(10_000, OpeningBalance(), marks.append)
    for engine in ("lives", "returns", "dies"):
        assert granted(before, engine, 0, EngineTotals(), 0, want=600) == 600
        assert granted(before, engine, 1, EngineTotals(granted=600), 600, want=60) == 60
    again = Budget(10_000, OpeningBalance(), marks.append, mark=marks[-1])
    granted(again, "lives", 2, EngineTotals(granted=660, spent=30), 600)
    granted(again, "returns", 2, EngineTotals(granted=660, returned=500, spent=40), 120)
    lives, returns, dies = 660, 160, 660
    assert 0 <= marks[-1].outlay - (lives + returns + dies) <= (600 + 120 + 600) // 6
    assert dies <= marks[-1].engines["dies"] <= dies + 600 // 6
    left = 10_000 - lives - returns - marks[-1].engines["dies"]
    living = EngineTotals(granted=660, spent=30)
    assert granted(again, "lives", 3, living, 600, want=left + 1) == 0
    assert granted(again, "lives", 4, living, 600, want=left) == left


def test_what_a_silent_engine_may_hold_is_known_to_the_dollar() -> None:
    now = [0.0]
    marks: list[HighWaterMark] = []
    budget = Budget(10_000, OpeningBalance(), marks.append, clock=lambda: now[0])
    granted(budget, "dies", 0, EngineTotals(), 0, want=600)
    granted(budget, "dies", 1, EngineTotals(granted=600), 600, want=10)
    assert marks[-1].engines["dies"] == 610 + 100
    now[0] = SILENT_S + 1
    granted(budget, "lives", 0, EngineTotals(), 0)
    assert marks[-1].engines["dies"] == 610


async def test_a_crash_strands_no_money_for_batches_that_were_not_sent() -> None:
    """A wave is reserved as a whole and sent batch by batch; the ledger accounts for those that were sent."""
    marks: list[HighWaterMark] = []
    async with BatchBudgetClient(LocalBudget(Budget(10_000, OpeningBalance(), marks.append))) as client:
        assert await client.reserve_now(9_000)
        client.commit(2_000)
        assert not await client.reserve_now(1_001) and await client.reserve_now(500)
        assert {mark.outlay for mark in marks} == {0}
        moved = Budget(10_000, OpeningBalance(committed=2_000), marks.append, mark=marks[-1])
        assert granted(moved, "online", 0, EngineTotals(), 0, want=501) == 0, "the batch engine has not reported yet"
        assert granted(moved, "online", 1, EngineTotals(), 0, want=500) == 500
        client.release(7_000)
        client.collect(2_000, 300, 0)
        assert not await client.reserve_now(9_201) and await client.reserve_now(9_200)
        client.release(9_700)
