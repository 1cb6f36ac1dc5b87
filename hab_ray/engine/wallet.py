"""An engine's money in hand. A call's reservation is made before it is sent and settled when its cost is known.

in hand ── reserve ──> reserved ── settle ──> spent as the call cost, the rest in hand again
                                ── release ──> in hand: nothing was sent, or the vendor charged nothing
                                ── lose ──> spent whole: sent, and the bill is not known
                                ── commit ──> in a batch whose intent is durable ── collect ──> free, less its cost
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Self
from uuid import uuid4

from hab_ray.engine.budget import Account, Draw, Money
from hab_ray.prices import NANO

EVEN_OUT_EVERY_S = 0.5
ASK_AGAIN_S = 0.1
BUDGET_REACHED = "budget reached"


class Wallet:
    """Money in hand, in nano-dollars. Used as a context; it works on one event loop.

    `reserved` is set aside for calls in flight, `in_batches` for open batches. `lost` is what calls may have cost
    whose bill is not known.
    """

    def __init__(self, money: Money) -> None:
        self._money = money
        self._lane, self._sequence = uuid4().hex, 0
        self._account = Account()
        self._unanswered: Draw | None = None
        self._in_hand = 0
        self._wanted = 0
        self.left: int | None = None
        self._dry_until = -inf
        self._drawing = asyncio.Lock()
        self._hurry = asyncio.Event()
        self.reserved = 0
        self.in_batches = 0
        self.lost = 0
        self._batches_given_up = False
        self._reported: Account | None = self._account

    async def __aenter__(self) -> Self:
        self._evening_out = asyncio.create_task(self._even_out_regularly())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Return everything."""
        self._evening_out.cancel()
        await asyncio.gather(self._evening_out, return_exceptions=True)
        async with self._drawing:
            await self._answered()
            await self._draw(least=0, want=0, keep=0)

    @property
    def spent(self) -> int:
        """What this engine has spent."""
        return self._account.spent + self._account.cost

    @property
    def is_asking(self) -> bool:
        """Whether a draw has no answer yet."""
        return self._unanswered is not None

    def refusal(self, bound: int) -> str | None:
        """Why a call that may cost this much will never be paid for; None where it may be."""
        if self.left is None or bound <= self.left:
            return None
        return (
            f"{BUDGET_REACHED}: the call may cost ${bound / NANO:.4f} and ${self.left / NANO:.4f} is left; "
            "raise budget_usd and give the same command again"
        )

    async def reserve(self, bound: int) -> str | None:
        """Set aside the most that a call may cost, waiting for other calls' change; the reason, if it cannot be."""
        self._wanted += bound
        try:
            while bound > self._in_hand:
                async with self._drawing:
                    if bound > self._in_hand and self._dry_until <= self._now():
                        await self._draw_for(bound)
                refusal = self.refusal(bound)
                if refusal:
                    return refusal
                if bound > self._in_hand:
                    await asyncio.sleep(ASK_AGAIN_S)
        finally:
            self._wanted -= bound
        self._in_hand -= bound
        self.reserved += bound
        return None

    def settle(self, bound: int, cost: int) -> None:
        """A call that `bound` was set aside for has cost this much."""
        self.reserved -= bound
        self._in_hand += bound - cost
        self._account = replace(self._account, spent=self._account.spent + cost)

    def release(self, bound: int) -> None:
        """A call that `bound` was set aside for has cost nothing."""
        self.settle(bound, 0)

    def lose(self, bound: int) -> None:
        """A call was sent and nobody knows what it cost: all that was set aside counts as spent."""
        self.settle(bound, bound)
        self.lost += bound

    def commit(self, bound: int) -> None:
        """A batch that `bound` was set aside for has a durable intent, which counts this money from now on."""
        self.reserved -= bound
        self.in_batches += bound
        self._account = replace(self._account, committed=self._account.committed + bound)
        self._hurry.set()

    def take_up(self, bound: int) -> None:
        """An open batch of an earlier process of this run has this much set aside."""
        self.in_batches += bound

    def collect(self, bound: int, cost: int, lost: int) -> None:
        """A batch with this much set aside has ended: it cost this much, and at most `lost` more for answers that
        brought nothing.
        """
        self.in_batches -= bound
        self.lost += lost
        account = self._account
        self._account = replace(account, collected=account.collected + bound, cost=account.cost + cost + lost)
        self._hurry.set()

    def give_up_batches(self) -> None:
        """The open batches are waited for no longer: what is set aside for them does not come back in this process."""
        self._batches_given_up, self._reported = True, None
        self._hurry.set()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def _draw_for(self, bound: int) -> None:
        """Draw what is missing for one call, and better for all that wait, with half of what is in flight on top."""
        await self._answered()
        missing = max(0, bound - self._in_hand)
        want = max(missing, self._wanted + self.reserved // 2 - self._in_hand)
        await self._draw(least=missing, want=want, keep=self._in_hand)
        self._dry_until = self._now() + ASK_AGAIN_S if bound > self._in_hand else -inf

    async def _draw(self, least: int, want: int, keep: int) -> None:
        returned = max(0, self._in_hand - keep)
        self._in_hand -= returned
        self._account = replace(self._account, returned=self._account.returned + returned)
        idle = self.in_batches if self._batches_given_up else 0
        self._unanswered = Draw(self._lane, self._sequence, self._account, self.reserved, idle, least, want)
        self._sequence += 1
        await self._answered()

    async def _answered(self) -> None:
        """Send the draw that has no answer yet, if any, perhaps once more: a cut connection must not cost what it
        granted.
        """
        if self._unanswered is None:
            return
        drawn = await self._money.draw(self._unanswered)
        self._unanswered = None
        self._in_hand += drawn.granted
        self._account = replace(self._account, granted=self._account.granted + drawn.granted)
        self.left = drawn.left

    async def _even_out_regularly(self) -> None:
        """Report what was spent, and keep in hand no more than half of what is in flight."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVEN_OUT_EVERY_S):
                    await self._hurry.wait()
            self._hurry.clear()
            keep = self.reserved // 2
            if self._account != self._reported or self._in_hand > keep:
                async with self._drawing:
                    await self._answered()
                    await self._draw(least=0, want=0, keep=keep)
                    self._reported = self._account
