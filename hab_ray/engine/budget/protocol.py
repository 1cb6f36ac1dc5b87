"""Messages between an engine and the budget of its run. Amounts are integer nano-dollars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

ALIVE_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class EngineTotals:
    """Money that has passed through an engine since it started.

    All six totals only grow, so that a lost or repeated message does no harm. `granted` came from the budget and
    `returned` went back to it; `spent` is the cost of online calls. `committed` was moved to the intents of batches;
    `collected` is the part of it that was released when those batches were collected, at an actual cost of `cost`.
    """

    granted: int = 0
    returned: int = 0
    spent: int = 0
    committed: int = 0
    collected: int = 0
    cost: int = 0

    def __add__(self, other: EngineTotals) -> EngineTotals:
        return EngineTotals(
            granted=self.granted + other.granted,
            returned=self.returned + other.returned,
            spent=self.spent + other.spent,
            committed=self.committed + other.committed,
            collected=self.collected + other.collected,
            cost=self.cost + other.cost,
        )

    @property
    def outlay(self) -> int:
        """What the high-water mark must cover: spent online, or still held."""
        return self.granted - self.returned - self.committed

    @property
    def held(self) -> int:
        """Granted, and neither spent nor moved to a batch nor returned."""
        return self.outlay - self.spent

    @property
    def in_batches(self) -> int:
        """Change in the money reserved by open batches; negative once batches of earlier processes are collected."""
        return self.committed - self.collected


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """An engine's report of its totals, and its request for `want` nano-dollars or at least for `least`.

    An engine sends one at least every `ALIVE_EVERY_S`, for as long as it lives.

    `sequence` numbers the engine's requests: a repeated number is a repeated request and gets the same answer.
    `in_flight` is reserved for calls in flight, `idle` for open batches that the engine no longer waits for.
    """

    engine: str
    sequence: int
    totals: EngineTotals
    in_flight: int = 0
    idle: int = 0
    least: int = 0
    want: int = 0


@dataclass(frozen=True, slots=True)
class BudgetGrant:
    """The amount granted. `left` is the most that any engine can ever be granted again; None without a limit.

    It grows again only where an engine that was taken to be dead is heard of.
    """

    granted: int
    left: int | None


class BudgetService(Protocol):
    """An engine's connection to the budget of its run, in this process or in another one."""

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        """Report and request money. Safe to repeat after a lost connection: see `BudgetRequest.sequence`."""
