"""Computes which budgets finish a sweep, and in how many rounds of batches.

A batch reserves the most that its calls can cost, with every answer as long as its limit, although most answers are
short. Even a budget that covers the cost of all calls many times over may therefore reserve only some of them at once:
a round of batches is packed from the free money and charged its actual cost; the next round is packed from the rest.

The rules are those of `hab_ray.engine.batch` and `hab_ray.engine.budget`: a batch holds no more than is left unspent,
is sent once so much is free, and a call is left out only if it alone may cost more than is left unspent.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from hab_ray.engine.budget.bound import FIRST_WAVE, LEAST_WAVE, CostSample, Wave

MAX_ROUNDS = 1000
ROUNDS_A_DAY = 24  # a batch takes an hour as a rule
MULTIPLES = (1.1, 1.3, 1.5, 2.0)
Count = Callable[[int], "tuple[StageRounds, ...] | None"]
RELATIVE_SD = 0.7
_SEED = 0


@dataclass(frozen=True)
class BatchedCalls:
    """The calls of one model at one stage that are sent by batch, with their total cost and reservation.

    `at_once` is the maximum number of calls in the vendor's queue.
    """

    calls: int
    cost: int
    reserved: int
    at_once: int | None = None

    @property
    def each(self) -> tuple[int, int]:
        """The cost and reservation per call, rounded up."""
        return -(-self.cost // self.calls), -(-self.reserved // self.calls)


@dataclass(frozen=True)
class StageCosts:
    """The cost of a stage in the sweep's modes: its batches by model, and its online calls."""

    stage: str
    batched: tuple[BatchedCalls, ...]
    online: int


@dataclass(frozen=True)
class StageRounds:
    """The number of consecutive rounds of batches of a stage; `MAX_ROUNDS` means that many or more."""

    stage: str
    rounds: int


@dataclass(frozen=True)
class BudgetLine:
    """The rounds of batches by stage for a budget (nano-dollars); None if it does not finish the sweep.

    `rounds` applies if a batch reserves the most that its calls can cost, `likely` with `reserve: likely`.
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
    no batches are made. All but `unhindered` are rounded up.
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
    def estimate(self) -> int:
        """What the run has spent, plus what its remaining calls cost by the plan."""
        return self.spent + self.bill

    @property
    def has_batches(self) -> bool:
        """Whether any calls are sent by batch."""
        return any(line.rounds for line in self.lines)

    @property
    def own(self) -> BudgetLine | None:
        """The line of the sweep's own budget."""
        return next((line for line in self.lines if line.is_sweeps_own), None)


def budget_outlook(
    stages: Sequence[StageCosts], likely: Count, largest: int, unhindered: int, spent: int, own: int | None
) -> BudgetOutlook:
    """Compute the outlook of a sweep whose largest single request reserves `largest`.

    The smallest budget that finishes covers all calls plus the reservation of the last one. `likely` counts rounds
    under `reserve: likely`.
    """
    bill = sum(stage.online + sum(calls.cost for calls in stage.batched) for stage in stages)
    hard = partial(rounds_of, stages)
    enough = spent + smallest_budget(bill, largest)
    smallest = _rounded_up(enough)
    most = max(smallest, spent + unhindered)
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
    """Return the total number of rounds of all stages."""
    return sum(one.rounds for one in rounds)


def _in_a_day(count: Count, low: int, high: int) -> int | None:
    """Return about the least money with which batches usually take a day at most; None if no money is enough."""

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
    """Return the smallest budget that completes calls with this total cost, in any order; 0 if they cost nothing.

    Before any call, the unspent money then covers at least the open calls plus `largest`, the most that one request
    reserves.
    """
    return cost + largest if cost else 0


def rounds_of(stages: Sequence[StageCosts], money: int) -> tuple[StageRounds, ...] | None:
    """Return the rounds of batches of each stage with this money; None if it is not enough."""
    return stage_by_stage(stages, [partial(rounds_of_calls, stage.batched) for stage in stages], money)


def stage_by_stage(
    stages: Sequence[StageCosts], counts: Sequence[Callable[[int], tuple[int, int] | None]], money: int
) -> tuple[StageRounds, ...] | None:
    """Return the rounds of stages, each with the money that earlier ones leave; None if it is not enough.

    `counts` has, for each stage, a function from its money to its rounds and their cost.
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
    """Return the rounds of a stage and their cost; None if the money is not enough for one of its calls."""
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
    """Round up to three significant digits."""
    size = int(10 ** max(0, len(str(value)) - 3))
    return -(-value // size) * size


def likely_rounds(stages: Sequence[StageCosts], risk: float) -> Count:
    """Return a function that counts the rounds of these stages for a likely budget; None if it is not enough.

    Row costs are not known beforehand. They are drawn from a lognormal distribution around the plan's mean, like the
    lengths of answers: most below it, a few far above. The waves are then those of `hab_ray.engine.budget.bound`. Real
    costs may take a round or two more or fewer.

    `risk` is shared by all stages. A run leaves half of it to later processes and half of the rest to later
    dispatches.
    """
    each = risk / max(1, sum(calls.calls > 0 for stage in stages for calls in stage.batched)) / 4
    cells = [[_Cell(calls, each) for calls in stage.batched if calls.calls] for stage in stages]
    return partial(stage_by_stage, stages, [partial(_rounds, some) for some in cells])


class _Cell:
    """A model's calls at a stage, with simulated costs, in sending order."""

    def __init__(self, calls: BatchedCalls, risk: float) -> None:
        self.calls, self._risk = calls, risk
        self._cap = calls.each[1]
        self._samples: dict[int, CostSample] = {}

    @property
    def is_sampled(self) -> bool:
        """Whether the cell is sent in waves at all."""
        return self.calls.calls > FIRST_WAVE and self.calls.cost > 0

    @cached_property
    def _costs(self) -> NDArray[np.int64]:
        variance = np.log(1 + RELATIVE_SD**2)
        drawn = np.random.default_rng(_SEED).lognormal(-variance / 2, np.sqrt(variance), self.calls.calls)
        costs: NDArray[np.int64] = np.minimum(drawn * (self.calls.cost / drawn.sum()), self._cap).astype(np.int64)
        return costs

    def wave(self, seen: int, free: int) -> Wave | None:
        """Return the largest wave that `free` pays for after `seen` rows, if any."""
        if seen not in self._samples:
            sample = CostSample(self.calls.calls, self._cap, self._risk, self.calls.calls)
            sample.add(self._costs[:seen].tolist())
            self._samples[seen] = sample
        sample, most = self._samples[seen], self.calls.at_once or self.calls.calls
        if seen:
            return sample.largest_wave(free, most)
        waves = (wave for wave in sample.waves() if wave.rows in (sample.to_come, FIRST_WAVE, LEAST_WAVE))
        return next((wave for wave in waves if wave.nanousd <= free and wave.rows <= most), None)

    def cost(self, seen: int, wave: Wave) -> int:
        return int(self._costs[seen : seen + wave.rows].sum())

    def rest(self, seen: int) -> BatchedCalls:
        """Return the remaining calls, which are sent under the hard bound if no wave is affordable."""
        calls, left = self.calls, self.calls.calls - seen
        cost, reserved = calls.each
        return BatchedCalls(left, left * cost, left * reserved, calls.at_once)


def _rounds(cells: Sequence[_Cell], money: int) -> tuple[int, int] | None:
    """Return the rounds of a stage and their cost; None if the money is not enough."""
    seen = {cell: 0 for cell in cells if cell.is_sampled}
    rounds = cost = 0
    while rounds < MAX_ROUNDS and any(count < cell.calls.calls for cell, count in seen.items()):
        free, sent = money - cost, False
        for cell, count in seen.items():
            wave = cell.wave(count, free) if count < cell.calls.calls else None
            if wave:
                free -= wave.nanousd
                cost += cell.cost(count, wave)
                seen[cell], sent = count + wave.rows, True
        if not sent:
            break
        rounds += 1
    rest = rounds_of_calls([cell.rest(seen.get(cell, 0)) for cell in cells], money - cost)
    return rest and (rounds + rest[0], cost + rest[1])
