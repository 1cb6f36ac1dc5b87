"""What a crash would strand, at any moment of a steady flow of calls."""

import asyncio

from hab_ray.engine.budget.budget import Budget, HighWaterMark, LocalBudget, OpeningBalance
from hab_ray.engine.budget.client import BudgetClient

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
