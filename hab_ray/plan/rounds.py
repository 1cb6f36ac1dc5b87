"""What a budget means for a sweep: which ones finish it at all, and in how many rounds of batches.

A batch reserves the most that its calls can cost, every answer as long as its limit, although answers are short as a
rule. A budget that pays for all calls many times over may therefore reserve only some at once: a round of batches is
packed from the money there is, waited for, paid at its real cost, and the next round is packed from what is left.

The rules are those of `hab_ray.engine.batch` and `hab_ray.engine.budget`: a batch holds no more than is left unspent,
is sent once so much is free, and a call is left out only if it alone may cost more than is left unspent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10

BETWEEN = 3
MOST_ROUNDS = 1000
_NICE = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True)
class BatchedCalls:
    """The calls of one model at one stage that go by batch: how many, and what they cost and reserve together.

    `at_once` bounds how many of them the vendor's queue takes at once.
    """

    calls: int
    cost: int
    reserved: int
    at_once: int | None = None


@dataclass(frozen=True)
class StageCosts:
    """What a stage costs as the sweep sends it: its batches by model, and what is asked online."""

    stage: str
    batched: tuple[BatchedCalls, ...]
    online: int


@dataclass(frozen=True)
class StageRounds:
    """How many rounds of batches a stage takes, one after the other; `MOST_ROUNDS` stands for any larger number."""

    stage: str
    rounds: int


@dataclass(frozen=True)
class BudgetLine:
    """What a budget (nano-dollars) means: its rounds of batches by stage, None where it does not finish the sweep."""

    budget: int
    rounds: tuple[StageRounds, ...] | None
    is_sweeps_own: bool = False

    @property
    def total(self) -> int | None:
        """The rounds of all stages, one after the other; at least `MOST_ROUNDS` where those of one are not counted."""
        return None if self.rounds is None else sum(one.rounds for one in self.rounds)


@dataclass(frozen=True)
class BudgetOutlook:
    """Budgets of a run in nano-dollars, each with what the run has `spent` before.

    `smallest` finishes the sweep, if its calls cost what the plan says, and with `unhindered` nothing waits; both are
    rounded up.
    `lines` are these two, the sweep's own budget, and where batches are made some in between, in ascending order.
    """

    spent: int
    smallest: int
    unhindered: int
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
    stages: Sequence[StageCosts], largest: int, unhindered: int, spent: int, own: int | None
) -> BudgetOutlook:
    """What budgets mean for a sweep whose largest single request reserves `largest`.

    The smallest budget that finishes pays for all calls and has, at the last one, its reservation besides.
    """
    cost = sum(stage.online + sum(calls.cost for calls in stage.batched) for stage in stages)
    enough = spent + smallest_budget(cost, largest)
    smallest = _rounded_up(enough)
    most = max(smallest, _rounded_up(spent + unhindered))
    budgets = {smallest, most}
    if any(stage.batched for stage in stages):
        budgets.update(between(smallest, most))
    if own is not None:
        budgets.add(own)
    lines = tuple(
        BudgetLine(budget, rounds_of(stages, budget - spent) if budget >= enough else None, budget == own)
        for budget in sorted(budgets)
    )
    return BudgetOutlook(spent, smallest, most, lines)


def smallest_budget(cost: int, largest: int) -> int:
    """The smallest budget with which calls that cost so much together are all made, in whatever order.

    Before any call, what is left unspent is at least what the open calls cost and `largest`, the most that one request
    reserves. Zero where nothing is to be paid.
    """
    return cost + largest if cost else 0


def rounds_of(stages: Iterable[StageCosts], money: int) -> tuple[StageRounds, ...] | None:
    """How many rounds of batches each stage takes with this money; None where it is not enough."""
    found = []
    for stage in stages:
        money -= stage.online
        taken = _rounds(stage.batched, money)
        if taken is None:
            return None
        rounds, cost = taken
        money -= cost
        if rounds:
            found.append(StageRounds(stage.stage, rounds))
    return tuple(found)


def _rounds(batched: Sequence[BatchedCalls], money: int) -> tuple[int, int] | None:
    """The rounds of a stage and what they cost; None where the money is not enough for one of its calls."""
    open_calls = {number: calls.calls for number, calls in enumerate(batched) if calls.calls}
    rounds = cost = 0
    while open_calls and rounds < MOST_ROUNDS:
        free = left = money - cost
        for number, count in list(open_calls.items()):
            calls = batched[number]
            reserved, price = _each(calls.reserved, calls.calls), _each(calls.cost, calls.calls)
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


def _each(total: int, calls: int) -> int:
    return -(-total // calls)


def between(low: int, high: int) -> Iterator[int]:
    """Some budgets between two others, evenly on a scale of ratios, rounded to figures that are easy to read."""
    if low <= 0:
        return
    ratio = (high / low) ** (1 / (BETWEEN + 1))
    for step in range(1, BETWEEN + 1):
        budget = _nice(low * ratio**step)
        if low < budget < high:
            yield budget


def _rounded_up(value: int) -> int:
    """Up to three figures."""
    size = int(10 ** max(0, len(str(value)) - 3))
    return -(-value // size) * size


def _nice(value: float) -> int:
    """The nearest easy figure, by ratio."""
    size = 10.0 ** floor(log10(value))
    return round(size * min(_NICE, key=lambda nice: abs(log10(value / size / nice))))
