"""What budgets mean for a sweep, as pure arithmetic."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from hab_ray.catalog.prices import NANO
from hab_ray.cli.views.budget_view import batch_time, budget_sentences, print_budgets
from hab_ray.planning.rounds import (
    MAX_ROUNDS,
    BatchedCalls,
    BudgetOutlook,
    StageCosts,
    budget_outlook,
    likely_rounds,
    rounds_of,
    rounds_together,
    smallest_budget,
)

DOLLAR = NANO
STAGES = (
    StageCosts("respond", (BatchedCalls(1000, 100 * DOLLAR, 1000 * DOLLAR),), online=50 * DOLLAR),
    StageCosts("judge", (BatchedCalls(2000, 200 * DOLLAR, 3000 * DOLLAR), BatchedCalls(0, 0, 0)), online=0),
)
COST = 350 * DOLLAR


def totals(money: int, stages: tuple[StageCosts, ...] = STAGES) -> dict[str, int] | None:
    rounds = rounds_of(stages, money)
    return None if rounds is None else {one.stage: one.rounds for one in rounds}


def test_with_all_the_money_each_stage_takes_one_round() -> None:
    assert totals(4000 * DOLLAR) == {"respond": 1, "judge": 1}


def test_a_round_is_packed_from_what_the_one_before_has_left() -> None:
    """$50 go online; $550 reserve 550 answers, which cost $55, then 450 ($45); $450 reserve 300 verdicts, and so on."""
    money, rounds, verdicts = 450 * DOLLAR, 0, 2000
    while verdicts:
        packed = min(verdicts, money // (1500 * DOLLAR // 1000))
        money, rounds, verdicts = money - packed * DOLLAR // 10, rounds + 1, verdicts - packed
    assert totals(600 * DOLLAR) == {"respond": 2, "judge": rounds} and rounds > 5


def test_models_share_the_money_of_a_round() -> None:
    """The second model fits beside the first; the third waits for the next round."""
    calls = BatchedCalls(10, 10 * DOLLAR, 40 * DOLLAR)
    assert totals(100 * DOLLAR, (StageCosts("judge", (calls, calls, calls), 0),)) == {"judge": 2}
    assert totals(120 * DOLLAR, (StageCosts("judge", (calls, calls, calls), 0),)) == {"judge": 1}


def test_a_vendors_queue_makes_rounds_too() -> None:
    assert totals(NANO**2, (StageCosts("judge", (BatchedCalls(10, 1, 1, at_once=4),), 0),)) == {"judge": 3}


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 1000), st.integers(0, 9000)), min_size=1, max_size=4),
    st.integers(0, 1000),
)
def test_the_smallest_budget_finishes_and_less_than_the_cost_does_not(
    kinds: list[tuple[int, int, int]], online: int
) -> None:
    batched = tuple(BatchedCalls(n, n * cost, n * (cost + slack)) for n, cost, slack in kinds)
    stages = (StageCosts("judge", batched, online),)
    cost = sum(calls.cost for calls in batched) + online
    largest = max(cost + slack for _, cost, slack in kinds)
    assert rounds_of(stages, smallest_budget(cost, largest)) is not None
    assert rounds_of(stages, cost - 1) is None


def test_more_money_never_takes_more_rounds_for_one_model() -> None:
    found = [totals(dollars * DOLLAR, STAGES[:1]) for dollars in range(152, 1200, 7)]
    rounds = [one["respond"] for one in found if one]
    assert len(rounds) == len(found) and rounds == sorted(rounds, reverse=True) and rounds[-1] == 1


def test_absurd_reservations_are_not_counted_to_their_end() -> None:
    calls = BatchedCalls(10**9, 10**9, 10**18)
    assert totals(2 * 10**9, (StageCosts("judge", (calls,), 0),)) == {"judge": MAX_ROUNDS}


def budgets(
    stages: tuple[StageCosts, ...], largest: int, unhindered: int, spent: int, own: int | None
) -> BudgetOutlook:
    return budget_outlook(stages, likely_rounds(stages, 1e-6), largest, unhindered, spent, own)


def outlook(own: int | None, spent: int = 0, stages: tuple[StageCosts, ...] = STAGES) -> BudgetOutlook:
    return budgets(stages, 2 * DOLLAR, 4100 * DOLLAR, spent, own)


def shown(found: BudgetOutlook) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_budgets(found, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def sentences(found: BudgetOutlook, is_likely: bool = False) -> str:
    return "\n".join((*budget_sentences(found, is_likely), batch_time(found, is_likely) or ""))


def test_the_sweeps_own_budget_has_its_line() -> None:
    found = outlook(900 * DOLLAR)
    assert found.smallest == COST + 2 * DOLLAR and found.unhindered == 4100 * DOLLAR
    assert [line.budget for line in found.lines] == sorted(line.budget for line in found.lines)
    assert len(found.lines) == 7 and found.own is not None and found.own.budget == 900 * DOLLAR
    rounds = [rounds_together(line.rounds or ()) for line in found.lines]
    assert rounds == sorted(rounds, reverse=True) and rounds[-1] == 2


def test_a_budget_finishes_whether_or_not_a_rounded_one_is_shown() -> None:
    exact = COST + 2_345_678_901
    found = budgets(STAGES, exact - COST, 4100 * DOLLAR, 0, exact)
    assert found.smallest == 353 * DOLLAR > exact and found.own is not None and found.own.rounds
    found = budgets(STAGES, exact - COST, 4100 * DOLLAR, 0, exact - 1)
    assert found.own is not None and found.own.rounds is None


def test_what_was_spent_before_is_part_of_every_budget() -> None:
    before, after = outlook(None), outlook(None, spent=100 * DOLLAR)
    assert after.smallest - before.smallest == after.unhindered - before.unhindered == 100 * DOLLAR
    assert after.lines[-1].rounds == before.lines[-1].rounds
    assert "covers the estimate ($450.00 with what is spent)" in sentences(outlook(450 * DOLLAR, spent=100 * DOLLAR))


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (300, "the budget of $300.00 is below the estimate ($350.00): the run ends with exit status 4"),
        (351, "the budget of $351.00 covers the estimate ($350.00), but the last calls may not be sent"),
        (900, "usually 7 rounds of batches (5 of judge), about 7 hours, at most 7 days"),
        (5000, "the budget of $5,000 is a hard limit; at the usual cost no call waits for money"),
        (0, "raise it to $352.00 or more"),
    ],
)
def test_it_says_what_to_expect_of_the_sweeps_own_budget(own: int, told: str) -> None:
    text = shown(outlook(own * DOLLAR))
    assert told in sentences(outlook(own * DOLLAR)) and "this sweep" in text and "nothing waits" in text
    table = [line for line in text.splitlines() if line.lstrip().startswith("$") or "of the bill" in line]
    assert len(table) == 8 and all(len(line) <= 80 for line in table)


def test_without_batches_there_are_no_rounds() -> None:
    online = (StageCosts("judge", (), COST),)
    assert "rounds" not in shown(outlook(None, stages=online))
    text = shown(outlook(900 * DOLLAR, stages=online))
    assert "smallest budget that finishes: $352.00" in text
    assert "is enough for the usual cost; below $4,100 some calls may wait" in sentences(
        outlook(900 * DOLLAR, stages=online)
    )


def test_where_nothing_costs_anything_nothing_is_said() -> None:
    assert shown(budgets((), 0, 0, 0, 5 * DOLLAR)) == ""
    assert not list(budget_sentences(budgets((), 0, 0, 0, 5 * DOLLAR), False))


def test_a_likely_budget_near_the_bill_takes_few_rounds_and_the_plan_says_so_for_both() -> None:
    """4,000 calls that reserve fifteen times what they cost."""
    stages = (StageCosts("judge", (BatchedCalls(4000, 400 * DOLLAR, 6000 * DOLLAR),), 0),)
    found = budgets(stages, 2 * DOLLAR, 6000 * DOLLAR, 0, 520 * DOLLAR)
    assert found.own and found.own.rounds and found.own.likely
    assert found.own.rounds[0].rounds > 15 and found.own.likely[0].rounds <= 4
    assert found.likely_in_a_day and found.in_a_day and found.likely_in_a_day < 1.1 * found.bill < found.in_a_day
    assert [round(line.budget / found.bill, 1) for line in found.lines] == [1.0, 1.1, 1.3, 1.5, 2.0, 15.0]
    told = sentences(found, is_likely=True)
    assert f"usually {found.own.likely[0].rounds} rounds of batches" in told and "--detach" in told
    assert f"at most {found.own.rounds[0].rounds} days" in told
    assert f"usually {found.own.rounds[0].rounds} rounds of batches" in sentences(found)


def test_few_calls_are_no_sample_and_go_out_as_with_a_hard_budget() -> None:
    stages = (StageCosts("judge", (BatchedCalls(200, 20 * DOLLAR, 300 * DOLLAR),), 0),)
    for money in (21 * DOLLAR, 50 * DOLLAR, 300 * DOLLAR):
        assert likely_rounds(stages, 1e-6)(money) == rounds_of(stages, money)
    assert likely_rounds(stages, 1e-6)(19 * DOLLAR) is None


def test_a_vendors_queue_bounds_the_waves_of_a_likely_budget() -> None:
    calls = BatchedCalls(4000, 400 * DOLLAR, 6000 * DOLLAR, at_once=500)
    rounds = likely_rounds((StageCosts("judge", (calls,), 0),), 1e-6)(10_000 * DOLLAR)
    assert rounds and 8 <= rounds[0].rounds <= 16
