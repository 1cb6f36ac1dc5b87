"""An engine's side of the budget: money is reserved before a call is sent and settled when its cost is known.

held ── reserve ──> reserved ── settle ──> the call's cost is spent, the rest is held again
                             ── release ──> held: nothing was sent, or the vendor charged nothing
                             ── lose ──> spent in full: the call was sent and its cost is unknown
                             ── commit ──> in a batch whose intent is durable ── collect ──> released, less its cost
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Self
from uuid import uuid4

from hab_ray.engine.budget.protocol import ALIVE_EVERY_S, BudgetRequest, BudgetService, EngineTotals
from hab_ray.errors import HabError, LeaseStale
from hab_ray.visible import usd

REBALANCE_EVERY_S = 0.5
RETRY_S = 0.1
IDLE_PART = 5
WAITS_AFTER_S = 2.0
BUDGET_REACHED = "budget reached"


class WaitingReservations:
    """Reservations that have been pending for at least `after_s` seconds. For the engine's event loop only."""

    def __init__(self, after_s: float, clock: Callable[[], float]) -> None:
        self._after_s, self._clock = after_s, clock
        self._pending: dict[object, tuple[int, float]] = {}

    @contextmanager
    def pending(self, bound: int) -> Iterator[None]:
        """Count a reservation of this many nano-dollars as pending inside the `with` block."""
        entry = object()
        self._pending[entry] = bound, self._clock()
        try:
            yield
        finally:
            del self._pending[entry]

    @property
    def smallest(self) -> int:
        """The smallest waiting reservation in nano-dollars; 0 if none waits."""
        latest = self._clock() - self._after_s
        return min((bound for bound, since in self._pending.values() if since <= latest), default=0)


class BudgetClient:
    """Holds money granted by the budget, in nano-dollars. Used as a context manager, on one event loop.

    `reserved` is set aside for calls in flight, `in_batches` for open batches. `lost` is the most that calls of unknown
    cost may have cost. `left` is the most that can ever be granted again; None without a limit. `clock` gives monotonic
    seconds. A client draws its own name, which tells it apart even from an engine that it replaces after a crash.
    """

    _BY_BATCH = False

    def __init__(
        self,
        service: BudgetService,
        waits_after_s: float = WAITS_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service, self._clock = service, clock
        self.waiting = WaitingReservations(waits_after_s, clock)
        self._name, self._sequence = uuid4().hex, 0
        self._totals = EngineTotals()
        self._reported: EngineTotals | None = self._totals
        self._unanswered: BudgetRequest | None = None
        self._held = 0
        self._wanted = 0
        self._retry_at = self._answered_at = -inf
        self._requesting = asyncio.Lock()
        self._report_now = asyncio.Event()
        self._batches_given_up = False
        self.left: int | None = None
        self.reserved = 0
        self.in_batches = 0
        self.lost = 0

    async def __aenter__(self) -> Self:
        self._rebalancing = asyncio.create_task(self._rebalance_regularly())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Return everything that is held."""
        self._rebalancing.cancel()
        await asyncio.gather(self._rebalancing, return_exceptions=True)
        async with self._requesting:
            await self._resolve()
            await self._request(least=0, want=0, keep=0)

    @property
    def spent(self) -> int:
        return self._totals.spent + self._totals.cost

    @property
    def is_asking(self) -> bool:
        """Whether a request has not been answered yet."""
        return self._unanswered is not None

    def refusal(self, bound: int) -> str | None:
        """Return why the budget can never pay for calls that may cost `bound` together; None if it can."""
        if self.left is None or bound <= self.left:
            return None
        return f"{BUDGET_REACHED}: up to {usd(bound)} had to be reserved, and only {usd(self.left)} was left"

    async def reserve(self, bound: int) -> str | None:
        """Reserve the most that a call may cost, waiting for money that other calls release.

        Returns:
            None once it is reserved, else the reason why it never can be.
        """
        self._wanted += bound
        try:
            with self.waiting.pending(bound):
                while bound > self._held:
                    async with self._requesting:
                        if bound > self._held and self._retry_at <= self._clock():
                            with suppress(LeaseStale):  # the unanswered request is sent again
                                await self._request_for(bound)
                    refusal = self.refusal(bound)
                    if refusal:
                        return refusal
                    if bound > self._held:
                        await asyncio.sleep(RETRY_S)
        finally:
            self._wanted -= bound
        self._held -= bound
        self.reserved += bound
        return None

    def settle(self, bound: int, cost: int) -> None:
        """Book the cost of a call for which `bound` was reserved."""
        self.reserved -= bound
        self._held += bound - cost
        self._totals += EngineTotals(spent=cost)

    def release(self, bound: int) -> None:
        """Cancel a reservation: the call has cost nothing."""
        self.settle(bound, 0)

    def lose(self, bound: int) -> None:
        """Book a call that was sent and whose cost will never be known: it counts as spent in full."""
        self.settle(bound, bound)
        self.lost += bound

    async def _request_for(self, bound: int) -> None:
        """Request at least what one call lacks, at best enough for all waiting calls and a reserve.

        The reserve is a fifth of what is in flight, or one more call where that is more.
        """
        await self._resolve()
        missing = max(0, bound - self._held)
        want = max(missing, self._wanted + max(bound, self.reserved // IDLE_PART) - self._held)
        await self._request(least=missing, want=want, keep=self._held)
        self._retry_at = self._clock() + RETRY_S if bound > self._held else -inf

    async def _request(self, least: int, want: int, keep: int) -> None:
        returned = max(0, self._held - keep)
        self._held -= returned
        self._totals += EngineTotals(collected=returned) if self._BY_BATCH else EngineTotals(returned=returned)
        in_flight = 0 if self._BY_BATCH else self.reserved
        idle = self.in_batches if self._batches_given_up else 0
        self._unanswered = BudgetRequest(
            self._name, self._sequence, self._totals, in_flight, idle, least, want, self._BY_BATCH
        )
        self._sequence += 1
        await self._resolve()

    async def _resolve(self) -> None:
        """Send the unanswered request again, if there is one: its answer may hold money that was already granted."""
        if self._unanswered is None:
            return
        request = self._unanswered
        grant = await self._service.grant(request)
        self._unanswered = None
        self._held += grant.granted
        self._totals += request.receipt(grant.granted)
        self.left, self._answered_at = grant.left, self._clock()

    async def _rebalance_regularly(self) -> None:
        """Report what was spent, return all but a fifth of what is in flight, and show that this engine is alive."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REBALANCE_EVERY_S):
                    await self._report_now.wait()
            self._report_now.clear()
            keep = self.reserved // IDLE_PART
            is_silent = self._clock() - self._answered_at >= ALIVE_EVERY_S
            if self._totals != self._reported or self._held > keep or is_silent:
                with suppress(OSError, HabError):  # the unanswered request is sent again
                    async with self._requesting:
                        await self._resolve()
                        await self._request(least=0, want=0, keep=keep)
                        self._reported = self._totals


class BatchBudgetClient(BudgetClient):
    """The budget client of a batch engine, whose reservations outlive the process.

    All money that it holds counts as set aside for batches, so a crash leaves only batches unaccounted for.
    """

    _BY_BATCH = True

    async def reserve_now(self, bound: int) -> bool:
        """Reserve this much if it is available at once; return whether it was."""
        async with self._requesting:
            if bound > self._held:
                with suppress(LeaseStale):
                    await self._resolve()
                    missing = max(0, bound - self._held)
                    await self._request(least=missing, want=missing, keep=self._held)
        if bound > self._held:
            return False
        self._held -= bound
        self.reserved += bound
        return True

    def commit(self, bound: int) -> None:
        """Move a reservation to a batch whose intent is durable; from now on the ledger accounts for it."""
        self.reserved -= bound
        self.in_batches += bound

    def adopt(self, bound: int) -> None:
        """Count the reservation of a batch left open by an earlier process of this run."""
        self.in_batches += bound

    def collect(self, bound: int, cost: int, lost: int) -> None:
        """Release the reservation of a batch that has ended.

        It cost `cost`, and at most `lost` more for rows that were answered without a usable result.
        """
        self.in_batches -= bound
        self.lost += lost
        self._totals += EngineTotals(collected=bound, cost=cost + lost)
        self._report_now.set()

    def give_up_batches(self) -> None:
        """Stop waiting for the open batches: what they reserve is not released in this process."""
        self._batches_given_up, self._reported = True, None
        self._report_now.set()
