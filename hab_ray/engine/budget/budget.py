"""The budget of a run: how much may still be spent, and how much of it each engine holds. Integer nano-dollars.

    budget = spent + reserved by open batches + held by engines + unaccounted + free

`Budget` is the single writer. An engine requests money before it sends, reports what its calls cost, and returns
what it does not need. It sends a call only if it holds the most that the call can cost, so the run never spends more
than its budget.

Before it grants money, the budget raises a durable high-water mark: an upper bound of what this process's online calls
have cost or may still cost. After a crash the mark counts as spent, so calls in flight at that moment are never
forgotten. It does not cover money for batches: the ledger accounts for a batch from before it is sent.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from hab_ray.engine.budget.protocol import ALIVE_EVERY_S, BudgetGrant, BudgetRequest, EngineTotals

SILENT_S = 6 * ALIVE_EVERY_S


@dataclass(frozen=True, slots=True)
class HighWaterMark:
    """The durable state of a process's budget.

    `outlay` is an upper bound of what online calls have cost or may cost; `engines` holds each engine's part of it.
    `committed` is set aside for batches of the run, sent or not; the batches that this process collected cost `cost`.
    `batches` holds each engine's part of both: what it has set aside, less what it has released, and the cost.
    """

    outlay: int
    committed: int
    cost: int
    engines: Mapping[str, int] = field(default_factory=dict, compare=False)
    batches: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class OpeningBalance:
    """What earlier processes of a run have spent and reserved.

    `stranded` is the part of `spent` that was granted before an unclean end and cannot be accounted for, and `paid` the
    part that replies cost. Open batches reserve `committed`, and `out_of_reach` if this process does not use their
    models: another process collects those.
    """

    spent: int = 0
    stranded: int = 0
    committed: int = 0
    out_of_reach: int = 0
    paid: int = 0


class Budget:
    """The single writer of a run's budget. Without a `limit` it grants everything and makes nothing durable.

    `keep` makes a mark durable before it returns. `mark` is the one that this process kept before a restart: engines
    that have not reported yet count as it says. What an older version wrote names no engine; it counts until engines
    report as much. `clock` gives monotonic seconds.

    An engine that dies returns nothing. Once it has been silent for `SILENT_S`, nobody waits for the money it holds;
    no other engine ever gets that money, since the dead engine's calls may have been charged.
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
        self._reports: dict[str, BudgetRequest] = {}
        self._answered: dict[str, tuple[int, BudgetGrant]] = {}
        self._last_heard: dict[str, float] = {}
        self._covered = dict(self._mark.engines)
        self._unnamed = self._mark.outlay - sum(self._covered.values())
        in_batches, cost = self._unreported
        self._batches_unnamed = self._mark.committed - opening.committed - in_batches
        self._cost_unnamed = self._mark.cost - cost

    @property
    def spent(self) -> int:
        """The money spent by all processes of the run, as far as reported."""
        return self._spent(self._totals())

    @property
    def committed(self) -> int:
        """The money reserved by the open batches of the run."""
        return self._committed(self._totals())

    @property
    def held(self) -> int:
        """The money held by the engines of this process."""
        return self._totals().held

    def grant(self, request: BudgetRequest) -> BudgetGrant:
        """Record an engine's report and grant it money: at most half of what is free, unless `least` is more.

        A repeated request gets the same answer again.

        Raises:
            OSError: the mark cannot be written; nothing was granted.
        """
        self._last_heard[request.engine] = self._clock()
        sequence, answer = self._answered.get(request.engine, (-1, None))
        if answer is not None and request.sequence <= sequence:
            return answer
        if request.engine not in self._reports:
            self._account_for(request.engine, request.totals)
        self._reports[request.engine] = request
        grant = self._granted(request)
        self._reports[request.engine] = replace(request, totals=request.totals + request.receipt(grant.granted))
        self._answered[request.engine] = request.sequence, grant
        return grant

    def _granted(self, request: BudgetRequest) -> BudgetGrant:
        if self._limit is None:
            return BudgetGrant(request.want, None)
        totals = self._totals()
        unspent = self._limit - self._spent(totals) - self._unaccounted - self._opening.out_of_reach
        granted = _share(request, unspent - self._committed(totals) - totals.held)
        after = replace(request, totals=request.totals + request.receipt(granted))
        self._raise_mark(self._reports | {request.engine: after}, self._limit)
        idle = sum(report.idle for report in self._reports.values())
        held_by_silent = sum(report.totals.held for name, report in self._reports.items() if self._is_silent(name))
        return BudgetGrant(granted, max(0, unspent - idle - held_by_silent))

    @property
    def _unaccounted(self) -> int:
        """The money granted before a restart of this process to engines that have not reported since."""
        return self._unnamed + sum(nano for engine, nano in self._covered.items() if engine not in self._reports)

    @property
    def _unreported(self) -> tuple[int, int]:
        """What engines had in batches, and what these cost, if they have not reported since a restart."""
        left = [part for engine, part in self._mark.batches.items() if engine not in self._reports]
        return sum(in_batches for in_batches, _ in left), sum(cost for _, cost in left)

    def _is_silent(self, engine: str) -> bool:
        return self._last_heard[engine] < self._clock() - SILENT_S

    def _totals(self) -> EngineTotals:
        return _sum(self._reports.values())

    def _spent(self, totals: EngineTotals) -> int:
        return self._opening.spent + totals.spent + self._batch_cost(totals)

    def _batch_cost(self, totals: EngineTotals) -> int:
        return totals.cost + self._unreported[1] + self._cost_unnamed

    def _committed(self, totals: EngineTotals) -> int:
        return self._opening.committed + totals.in_batches + self._unreported[0] + self._batches_unnamed

    def _account_for(self, engine: str, totals: EngineTotals) -> None:
        """Move what an engine reports for the first time out of the amounts that the mark has of no named engine."""
        if engine not in self._covered:
            self._unnamed = max(0, self._unnamed - totals.outlay)
        if totals.in_batches and engine not in self._mark.batches:
            batches = self._batches_unnamed - totals.in_batches
            self._batches_unnamed = max(0, batches) if totals.in_batches > 0 else min(0, batches)
        self._cost_unnamed = max(0, self._cost_unnamed - totals.cost)

    def _raise_mark(self, reports: Mapping[str, BudgetRequest], limit: int) -> None:
        """Keep the mark above each engine's outlay, by at most a sixth of what it has in flight.

        Write it only when it moves, and never above the most that can be granted. It is kept per engine, so that the
        death of one leaves at most that engine's part unaccounted for, whatever others have returned since.
        """
        totals = _sum(reports.values())
        outlays = {name: report.totals.outlay for name, report in reports.items()}
        slack = {name: 0 if self._is_silent(name) else report.in_flight // 6 for name, report in reports.items()}
        covered = self._covered
        if any(covered.get(name, 0) < outlay for name, outlay in outlays.items()):
            covered = covered | {name: outlay + slack[name] for name, outlay in outlays.items()}
        loose = [name for name, outlay in outlays.items() if covered.get(name, 0) > outlay + slack[name]]
        covered = covered | {name: outlays[name] + slack[name] // 2 for name in loose}
        cost = self._batch_cost(totals)
        committed = self._committed(totals)
        most = limit - self._opening.spent - self._opening.out_of_reach - cost - committed
        if self._unnamed + sum(covered.values()) > most:
            covered = covered | outlays
        batches = {n: (r.totals.in_batches, r.totals.cost) for n, r in reports.items()}
        mark = HighWaterMark(
            self._unnamed + sum(covered.values()), committed, cost, covered, {**self._mark.batches, **batches}
        )
        if mark != self._mark or covered != self._covered:
            self._keep(mark)
            self._mark, self._covered = mark, covered


def _sum(reports: Iterable[BudgetRequest]) -> EngineTotals:
    return sum((report.totals for report in reports), EngineTotals())


def _share(request: BudgetRequest, free: int) -> int:
    if not 0 <= request.least <= free:
        return 0
    return max(request.least, min(request.want, free // 2))


class LocalBudget:
    """A connection to a budget in this process."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        return self._budget.grant(request)


def unlimited() -> LocalBudget:
    """Return a budget that grants everything."""
    return LocalBudget(Budget(None, OpeningBalance(), keep=lambda _: None))
