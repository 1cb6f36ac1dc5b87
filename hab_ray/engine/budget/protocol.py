"""Messages between an engine and the budget of its run. Amounts are integer nano-dollars."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import add, attrgetter
from typing import Protocol

ALIVE_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class EngineTotals:
    """Money that has passed through an engine since it started.

    All six totals only grow, so a lost or repeated message does no harm. `granted` came from the budget and `returned`
    went back to it; `spent` is the cost of online calls. `committed` was set aside for batches; `collected` is the part
    of it that was released because there were none, or when they were collected, at an actual cost of `cost`.
    """

    granted: int = 0
    returned: int = 0
    spent: int = 0
    committed: int = 0
    collected: int = 0
    cost: int = 0

    def __add__(self, other: EngineTotals) -> EngineTotals:
        return EngineTotals(*map(add, _AMOUNTS(self), _AMOUNTS(other)))

    @property
    def outlay(self) -> int:
        """The money that the high-water mark must cover: spent online, or still held."""
        return self.granted - self.returned - self.committed

    @property
    def held(self) -> int:
        """The money granted and neither spent, returned nor set aside for batches."""
        return self.outlay - self.spent

    @property
    def in_batches(self) -> int:
        """The change in the money set aside for batches; negative once earlier processes' batches are collected."""
        return self.committed - self.collected


_AMOUNTS = attrgetter(*(field.name for field in fields(EngineTotals)))


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """An engine's report of its totals, and its request for `want` nano-dollars or at least for `least`.

    A living engine sends one at least every `ALIVE_EVERY_S`. `sequence` numbers its requests: a repeated number is a
    repeated request and gets the same answer. `in_flight` is reserved for calls in flight, `idle` for open batches that
    the engine no longer waits for. An engine that works `by_batch` puts all money at once into batches: it sends
    nothing before the ledger accounts for it.
    """

    engine: str
    sequence: int
    totals: EngineTotals
    in_flight: int = 0
    idle: int = 0
    least: int = 0
    want: int = 0
    by_batch: bool = False

    def receipt(self, amount: int) -> EngineTotals:
        """Return what the grant of this amount adds to the engine's totals."""
        return EngineTotals(granted=amount, committed=amount if self.by_batch else 0)


@dataclass(frozen=True, slots=True)
class BudgetGrant:
    """The amount granted. `left` is the most that any engine can ever be granted again; None without a limit.

    `left` grows only if an engine that was presumed dead reports again.
    """

    granted: int
    left: int | None


class BudgetService(Protocol):
    """An engine's connection to the budget of its run, in this process or another."""

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        """Report and request money. Idempotent: see `BudgetRequest.sequence`."""
