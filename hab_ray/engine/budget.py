"""A run's budget: what may still be spent, and who has how much of it in hand. Integer nano-dollars.

    budget = spent + open batches + in the engines' hands + unaccounted + free

`Budget` is the one writer. An engine draws before it sends, reports what its calls cost, and returns what it does
not need. Nothing is sent without money in hand for the most that it can cost, so spent never exceeds the budget.

Before money is granted beyond it, a durable mark is raised: an upper bound of what online calls of this process have
cost or may still cost. After a crash the mark counts as spent, so that calls in flight at that moment are never
forgotten. Money for a batch leaves the mark once the batch's intent is in the ledger, which counts it from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Account:
    """An engine's money since it started. All six totals only grow, so a message that is lost or repeated is harmless.

    `granted` came from the budget and `returned` went back; `spent` is what online calls cost. `committed` moved to
    intents of batches; of these, `collected` was set free when the batch was harvested, which had cost `cost`.
    """

    granted: int = 0
    returned: int = 0
    spent: int = 0
    committed: int = 0
    collected: int = 0
    cost: int = 0

    @property
    def outlay(self) -> int:
        """What the mark must cover: spent online, or in hand."""
        return self.granted - self.returned - self.committed

    @property
    def in_hand(self) -> int:
        """Granted, and neither spent nor moved to a batch nor returned."""
        return self.outlay - self.spent

    @property
    def in_batches(self) -> int:
        """Change of what open batches have set aside; negative once batches of earlier processes are collected."""
        return self.committed - self.collected


@dataclass(frozen=True, slots=True)
class Draw:
    """A request for `want` nano-dollars, or for `least` of them.

    `sequence` counts the engine's draws: the same number again is the same draw. `in_flight` is set aside for calls
    under way, `idle` for open batches that the engine waits for no longer.
    """

    lane: str
    sequence: int
    account: Account
    in_flight: int = 0
    idle: int = 0
    least: int = 0
    want: int = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """What an engine gets. `left` is the most that can ever be drawn again by anybody; None without a budget."""

    granted: int
    left: int | None


@dataclass(frozen=True, slots=True)
class Mark:
    """What is durable of a process's money. `outlay` bounds what online calls have cost or may cost; `committed` is
    set aside by all open batches of the run, and `cost` is what the batches collected by this process have cost.
    """

    outlay: int
    committed: int
    cost: int


@dataclass(frozen=True, slots=True)
class Opening:
    """What earlier processes of a run have left: `spent`, of which `stranded` was granted before an unclean end and
    is not accounted for, and `committed` for batches that are still open. `out_of_reach` is set aside for open batches
    of models that this process does not use: another one will collect them.
    """

    spent: int = 0
    stranded: int = 0
    committed: int = 0
    out_of_reach: int = 0


class Money(Protocol):
    """Whoever keeps a run's budget: in this process, or for the whole cluster."""

    async def draw(self, draw: Draw) -> Drawn:
        """Report and take. The same draw may be sent again; it is answered as before."""


@dataclass
class _Known:
    account: Account
    in_flight: int
    idle: int
    sequence: int
    answer: Drawn


class Budget:
    """The one writer of a run's budget; `limit` None is no limit, and then nothing is marked.

    `keep` makes a mark durable before it returns. `mark` is the one that an earlier life of this same process has
    kept: until its engines have reported, what it covers is taken to be in somebody's hands.
    """

    def __init__(
        self, limit: int | None, opening: Opening, keep: Callable[[Mark], None], mark: Mark | None = None
    ) -> None:
        self._limit, self._opening, self._keep = limit, opening, keep
        self._mark = mark or Mark(0, opening.committed, 0)
        self._engines: dict[str, _Known] = {}
        self._unaccounted = self._mark.outlay
        self._batches_unaccounted = self._mark.committed - opening.committed
        self._cost_unaccounted = self._mark.cost

    @property
    def spent(self) -> int:
        """Spent by all processes of the run so far, as far as it was reported."""
        own = sum(k.account.spent + k.account.cost for k in self._engines.values())
        return self._opening.spent + own + self._cost_unaccounted

    @property
    def committed(self) -> int:
        """Set aside by open batches of the run."""
        own = sum(known.account.in_batches for known in self._engines.values())
        return self._opening.committed + own + self._batches_unaccounted

    @property
    def in_hand(self) -> int:
        """In the hands of this process's engines."""
        return sum(known.account.in_hand for known in self._engines.values())

    def draw(self, draw: Draw) -> Drawn:
        """Take in a report and grant money; an engine gets at most half of what is free beyond its least need.

        Raises:
            OSError: the mark cannot be written; nothing was granted.
        """
        known = self._engines.get(draw.lane)
        if known is not None and draw.sequence <= known.sequence:
            return known.answer
        if known is None:
            self._account_for(draw.account)
        taken = self._engines[draw.lane] = _Known(draw.account, draw.in_flight, draw.idle, -1, Drawn(0, None))
        if self._limit is None:
            granted, left = draw.want, None
        else:
            free = self._limit - self.spent - self._unaccounted - self._opening.out_of_reach
            left = max(0, free - sum(known.idle for known in self._engines.values()))
            granted = _share(draw, free - self.committed - self.in_hand)
            self._raise_mark(granted, self._limit)
        taken.account = replace(draw.account, granted=draw.account.granted + granted)
        taken.sequence, taken.answer = draw.sequence, Drawn(granted, left)
        return taken.answer

    def _account_for(self, account: Account) -> None:
        """An engine reports for the first time: what it has is in no unknown hands."""
        self._unaccounted = max(0, self._unaccounted - account.outlay)
        batches = self._batches_unaccounted - account.in_batches
        self._batches_unaccounted = max(0, batches) if account.in_batches >= 0 else min(0, batches)
        self._cost_unaccounted = max(0, self._cost_unaccounted - account.cost)

    def _raise_mark(self, granted: int, limit: int) -> None:
        """Keep the mark above all that is out, by no more than half of what is in flight; write it where it moves.

        It never covers more than can be granted at all.
        """
        out = self._unaccounted + granted + sum(known.account.outlay for known in self._engines.values())
        slack = sum(known.in_flight for known in self._engines.values()) // 2
        cost = self._cost_unaccounted + sum(known.account.cost for known in self._engines.values())
        most = limit - self._opening.spent - self._opening.out_of_reach - cost - self.committed
        outlay = self._mark.outlay
        if outlay < out:
            outlay = out + slack
        elif outlay > out + slack:
            outlay = out + slack // 2
        mark = Mark(max(out, min(outlay, most)), self.committed, cost)
        if mark != self._mark:
            self._keep(mark)
            self._mark = mark


def _share(draw: Draw, free: int) -> int:
    if not 0 <= draw.least <= free:
        return 0
    return max(draw.least, min(draw.want, free // 2))


class LocalMoney:
    """A budget in this process."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    async def draw(self, draw: Draw) -> Drawn:
        """See Money."""
        return self._budget.draw(draw)


def unlimited() -> LocalMoney:
    """Money for a run without a budget."""
    return LocalMoney(Budget(None, Opening(), keep=lambda _: None))
