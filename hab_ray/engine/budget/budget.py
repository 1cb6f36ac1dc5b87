"""The budget of a run: how much may still be spent, and how much of it each engine holds. Integer nano-dollars.

    budget = spent + reserved by open batches + held by engines + unaccounted + free

`Budget` is the single writer. An engine requests money before it sends, reports what its calls cost, and returns
what it does not need. Nothing is sent unless the engine holds the most that it can cost, so that the amount spent
never exceeds the budget.

Before it grants money, the budget raises a durable high-water mark: an upper bound of what the online calls of this
process have cost or may still cost. After a crash the mark counts as spent, so that calls in flight at that moment
are never forgotten. Money for a batch leaves the mark once the intent of the batch is in the ledger, which counts it
from then on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from hab_ray.engine.budget.protocol import ALIVE_EVERY_S, BudgetGrant, BudgetRequest, EngineTotals

SILENT_S = 6 * ALIVE_EVERY_S


@dataclass(frozen=True, slots=True)
class HighWaterMark:
    """The durable state of a process's budget.

    `outlay` bounds what online calls have cost or may cost. `committed` is reserved by all open batches of the run;
    `cost` is what the batches collected by this process have cost.
    """

    outlay: int
    committed: int
    cost: int


@dataclass(frozen=True, slots=True)
class OpeningBalance:
    """What earlier processes of a run have spent and reserved.

    `stranded` is the part of `spent` that was granted before an unclean end and cannot be accounted for. `committed`
    is reserved by batches that are still open. `out_of_reach` is reserved by open batches of models that this process
    does not use: another process will collect them.
    """

    spent: int = 0
    stranded: int = 0
    committed: int = 0
    out_of_reach: int = 0


@dataclass(frozen=True, slots=True)
class _Position:
    """What an engine has reported, or the sum over all engines."""

    totals: EngineTotals
    in_flight: int
    idle: int

    def __add__(self, other: _Position) -> _Position:
        return _Position(self.totals + other.totals, self.in_flight + other.in_flight, self.idle + other.idle)


@dataclass(frozen=True, slots=True)
class _Answered:
    """The newest request of an engine and its answer, repeated if the request is."""

    sequence: int
    grant: BudgetGrant


class Budget:
    """The single writer of a run's budget. Without a `limit` everything is granted and nothing is made durable.

    `keep` makes a mark durable before it returns. `mark` is the one kept by an earlier life of this same process:
    what it covers is taken to be held by engines that have not reported yet. `clock` gives monotonic seconds.

    An engine that dies returns nothing. Once it was silent for `SILENT_S`, nobody waits for what it holds; that is
    never granted to another, since its calls may have been charged.
    """

    def __init__(
        self,
        limit: int | None,
        opening: OpeningBalance,
        keep: Callable[[HighWaterMark], None],
        mark: HighWaterMark | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit, self._opening, self._keep, self._clock = limit, opening, keep, clock
        self._mark = mark or HighWaterMark(0, opening.committed, 0)
        self._positions: dict[str, _Position] = {}
        self._answered: dict[str, _Answered] = {}
        self._heard: dict[str, float] = {}
        self._unaccounted = self._mark.outlay
        self._batches_unaccounted = self._mark.committed - opening.committed
        self._cost_unaccounted = self._mark.cost

    @property
    def spent(self) -> int:
        """Spent by all processes of the run, as far as reported."""
        return self._spent(self._total().totals)

    @property
    def committed(self) -> int:
        """Reserved by the open batches of the run."""
        return self._committed(self._total().totals)

    @property
    def held(self) -> int:
        """Held by the engines of this process."""
        return self._total().totals.held

    def grant(self, request: BudgetRequest) -> BudgetGrant:
        """Take in a report and grant money: at most half of what is free, unless `least` is more.

        Raises:
            OSError: the mark cannot be written; nothing was granted.
        """
        self._heard[request.engine] = self._clock()
        answered = self._answered.get(request.engine)
        if answered is not None and request.sequence <= answered.sequence:
            return answered.grant
        if request.engine not in self._positions:
            self._account_for(request.totals)
        position = _Position(request.totals, request.in_flight, request.idle)
        self._positions[request.engine] = position
        grant = self._granted(request)
        totals = replace(request.totals, granted=request.totals.granted + grant.granted)
        self._positions[request.engine] = replace(position, totals=totals)
        self._answered[request.engine] = _Answered(request.sequence, grant)
        return grant

    def _granted(self, request: BudgetRequest) -> BudgetGrant:
        if self._limit is None:
            return BudgetGrant(request.want, None)
        total = self._total()
        unspent = self._limit - self._spent(total.totals) - self._unaccounted - self._opening.out_of_reach
        granted = _share(request, unspent - self._committed(total.totals) - total.totals.held)
        self._raise_mark(granted, total, self._limit)
        return BudgetGrant(granted, max(0, unspent - total.idle - self._held_by_silent()))

    def _held_by_silent(self) -> int:
        since = self._clock() - SILENT_S
        return sum(self._positions[engine].totals.held for engine, heard in self._heard.items() if heard < since)

    def _total(self) -> _Position:
        return sum(self._positions.values(), _Position(EngineTotals(), in_flight=0, idle=0))

    def _spent(self, totals: EngineTotals) -> int:
        return self._opening.spent + totals.spent + totals.cost + self._cost_unaccounted

    def _committed(self, totals: EngineTotals) -> int:
        return self._opening.committed + totals.in_batches + self._batches_unaccounted

    def _account_for(self, totals: EngineTotals) -> None:
        """Move what an engine reports for the first time out of the unaccounted amounts."""
        self._unaccounted = max(0, self._unaccounted - totals.outlay)
        batches = self._batches_unaccounted - totals.in_batches
        self._batches_unaccounted = max(0, batches) if totals.in_batches >= 0 else min(0, batches)
        self._cost_unaccounted = max(0, self._cost_unaccounted - totals.cost)

    def _raise_mark(self, granted: int, total: _Position, limit: int) -> None:
        """Keep the mark above all outlay, by at most a sixth of what is in flight, and write it only when it moves.

        The mark never covers more than can be granted at all.
        """
        outlay = self._unaccounted + granted + total.totals.outlay
        slack = total.in_flight // 6
        cost = self._cost_unaccounted + total.totals.cost
        committed = self._committed(total.totals)
        most = limit - self._opening.spent - self._opening.out_of_reach - cost - committed
        marked = self._mark.outlay
        if marked < outlay:
            marked = outlay + slack
        elif marked > outlay + slack:
            marked = outlay + slack // 2
        mark = HighWaterMark(max(outlay, min(marked, most)), committed, cost)
        if mark != self._mark:
            self._keep(mark)
            self._mark = mark


def _share(request: BudgetRequest, free: int) -> int:
    if not 0 <= request.least <= free:
        return 0
    return max(request.least, min(request.want, free // 2))


class LocalBudget:
    """The connection to a budget in this process."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        return self._budget.grant(request)


def unlimited() -> LocalBudget:
    """A budget for a run without a limit."""
    return LocalBudget(Budget(None, OpeningBalance(), keep=lambda _: None))
