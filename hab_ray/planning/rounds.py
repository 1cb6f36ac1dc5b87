"""What a budget means for a sweep: which ones finish it at all, and in how many rounds of batches.

A batch reserves the most that its calls can cost, every answer as long as its limit, although answers are short as a
rule. A budget that pays for all calls many times over may therefore reserve only some at once: a round of batches is
packed from the money there is, waited for, paid at its real cost, and the next round is packed from what is left.

The rules are those of `hab_ray.engine.batch` and `hab_ray.engine.budget`: a batch holds no more than is left unspent,
is sent once so much is free, and a call is left out only if it alone may cost more than is left unspent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

MAX_ROUNDS = 1000
ROUNDS_A_DAY = 24  # a batch takes an hour as a rule
MULTIPLES = (1.1, 1.3, 1.5, 2.0)
Count = Callable[[int], "tuple[StageRounds, ...] | None"]


@dataclass(frozen=True)
class BatchedCalls:
    """The calls of one model at one stage that go by batch: how many, and what they cost and reserve together.

    `at_once` bounds how many of them the vendor's queue takes at once.
    """

    calls: int
    cost: int
    reserved: int
    at_once: int | None = None

    @property
    def each(self) -> tuple[int, int]:
        """What one of them costs and reserves, rounded up."""
        return -(-self.cost // self.calls), -(-self.reserved // self.calls)


@dataclass(frozen=True)
class StageCosts:
    """What a stage costs as the sweep sends it: its batches by model, and what is asked online."""

    stage: str
    batched: tuple[BatchedCalls, ...]
    online: int


@dataclass(frozen=True)
class StageRounds:
    """How many rounds of batches a stage takes, one after the other; `MAX_ROUNDS` stands for any larger number."""

    stage: str
    rounds: int


@dataclass(frozen=True)
class BudgetLine:
    """What a budget (nano-dollars) means: its rounds of batches by stage, None where it does not finish the sweep.

    `rounds` where a batch reserves the most that its calls can cost, `likely` with `reserve: likely`.
    """

    budget: int
    rounds: tuple[StageRounds, ...] | None
    likely: tuple[StageRounds, ...] | None
    is_sweeps_own: bool = False


@dataclass(frozen=True)
class BudgetOutlook:
    """Budgets of a run in nano-dollars, each with what the run has `spent` before; `bill` is what its calls cost.

    `smallest` finishes the sweep, if its calls cost what the plan says, and with `unhindered` nothing waits. With
    `in_a_day` batches take `ROUNDS_A_DAY` rounds at most, with `likely_in_a_day` so under `reserve: likely`; None where
    no batches are made. All are rounded up.
    `lines` are the first two, the sweep's own budget, and where batches are made `MULTIPLES` of the bill, ascending.
    """

    spent: int
    bill: int
    smallest: int
    unhindered: int
    in_a_day: int | None
    likely_in_a_day: int | None
    lines: tuple[BudgetLine, ...]

    @property
    def has_batches(self) -> bool:
        """Whether anything goes by batch."""
        return any(line.rounds for line in self.lines)

    @property
    def own(self) -> BudgetLine | None:
        """The line of the sweep's own budget."""
        return next((line for line in self.lines if line.is_sweeps_own), None)


def budget_outlook(
    stages: Sequence[StageCosts], likely: Count, largest: int, unhindered: int, spent: int, own: int | None
) -> BudgetOutlook:
    """What budgets mean for a sweep whose largest single request reserves `largest`.

    The smallest budget that finishes pays for all calls and has, at the last one, its reservation besides. `likely`
    counts rounds under `reserve: likely`.
    """
    bill = sum(stage.online + sum(calls.cost for calls in stage.batched) for stage in stages)
    hard = partial(rounds_of, stages)
    enough = spent + smallest_budget(bill, largest)
    smallest = _rounded_up(enough)
    most = max(smallest, _rounded_up(spent + unhindered))
    budgets = {smallest, most} if own is None else {smallest, most, own}
    has_batches = any(stage.batched for stage in stages)
    if has_batches:
        budgets |= {each for times in MULTIPLES if smallest < (each := _rounded_up(spent + int(times * bill))) < most}

    def line(budget: int) -> BudgetLine:
        if budget < enough:
            return BudgetLine(budget, None, None, budget == own)
        return BudgetLine(budget, hard(budget - spent), likely(budget - spent), budget == own)

    def in_a_day(count: Count) -> int | None:
        money = _in_a_day(count, smallest - spent, most - spent) if has_batches else None
        return None if money is None else _rounded_up(spent + money)

    return BudgetOutlook(
        spent, bill, smallest, most, in_a_day(hard), in_a_day(likely), tuple(map(line, sorted(budgets)))
    )


def rounds_together(rounds: Iterable[StageRounds]) -> int:
    """The rounds of all stages, one after the other."""
    return sum(one.rounds for one in rounds)


def _in_a_day(count: Count, low: int, high: int) -> int | None:
    """About the least money with which batches take a day as a rule; None where no money is enough."""

    def is_enough(money: int) -> bool:
        rounds = count(money)
        return rounds is not None and rounds_together(rounds) <= ROUNDS_A_DAY

    if is_enough(low):
        return low
    if not is_enough(high):
        return None
    while high - low > high // 100:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def smallest_budget(cost: int, largest: int) -> int:
    """The smallest budget with which calls that cost so much together are all made, in whatever order.

    Before any call, what is left unspent is at least what the open calls cost and `largest`, the most that one request
    reserves. Zero where nothing is to be paid.
    """
    return cost + largest if cost else 0


def rounds_of(stages: Sequence[StageCosts], money: int) -> tuple[StageRounds, ...] | None:
    """How many rounds of batches each stage takes with this money; None where it is not enough."""
    return stage_by_stage(stages, [partial(rounds_of_calls, stage.batched) for stage in stages], money)


def stage_by_stage(
    stages: Sequence[StageCosts], counts: Sequence[Callable[[int], tuple[int, int] | None]], money: int
) -> tuple[StageRounds, ...] | None:
    """The rounds of stages, each with the money that the ones before leave; None where that is not enough.

    `counts` says for each stage how many rounds it takes with so much money, and what they cost.
    """
    found = []
    for stage, count in zip(stages, counts, strict=True):
        money -= stage.online
        taken = count(money)
        if taken is None:
            return None
        rounds, cost = taken
        money -= cost
        if rounds:
            found.append(StageRounds(stage.stage, rounds))
    return tuple(found)


def rounds_of_calls(batched: Sequence[BatchedCalls], money: int) -> tuple[int, int] | None:
    """The rounds of a stage and what they cost; None where the money is not enough for one of its calls."""
    open_calls = {number: calls.calls for number, calls in enumerate(batched) if calls.calls}
    rounds = cost = 0
    while open_calls and rounds < MAX_ROUNDS:
        free = left = money - cost
        for number, count in list(open_calls.items()):
            calls = batched[number]
            price, reserved = calls.each
            packed = min(count, left // reserved if reserved else count, calls.at_once or count)
            if packed <= 0:
                return None
            if packed * reserved > free:
                continue
            free -= packed * reserved
            cost += packed * price
            open_calls[number] = count - packed
        open_calls = {number: count for number, count in open_calls.items() if count}
        rounds += 1
    return rounds, cost


def _rounded_up(value: int) -> int:
    """Up to three figures."""
    size = int(10 ** max(0, len(str(value)) - 3))
    return -(-value // size) * size
