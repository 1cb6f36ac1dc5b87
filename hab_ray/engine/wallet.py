"""A lane's money in hand. A call's reservation is made before it is sent and settled when its cost is known.

in hand ── reserve ──> reserved ── settle ──> spent as the call cost, the rest in hand again
                                ── release ──> in hand: nothing was sent, or the vendor charged nothing
                                ── lose ──> spent whole: sent, and the bill is not known
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Self

from hab_ray.engine.purse import Draw, Money

CALLS_DRAWN = 32
EVEN_OUT_EVERY_S = 0.5
ASK_AGAIN_S = 0.1
NANO = 1e9
BUDGET_REACHED = "budget reached"


class Wallet:
    """Money in hand, in nano-dollars. Used as a context; it works on one event loop."""

    def __init__(self, money: Money) -> None:
        self._money = money
        self._in_hand = 0
        self._untold = 0
        self._needed = 0
        self.left: int | None = None
        self._dry_until = -inf
        self._drawing = asyncio.Lock()
        self.reserved = 0
        self.lost = 0

    async def __aenter__(self) -> Self:
        self._evening_out = asyncio.create_task(self._even_out_regularly())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Give everything back."""
        self._evening_out.cancel()
        await asyncio.gather(self._evening_out, return_exceptions=True)
        async with self._drawing:
            await self._draw(least=0, want=0, keep=0)

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
        while bound > self._in_hand:
            async with self._drawing:
                if bound > self._in_hand and self._dry_until <= self._now():
                    await self._draw(least=bound - self._in_hand, want=CALLS_DRAWN * bound, keep=self._in_hand)
                    self._dry_until = self._now() + ASK_AGAIN_S if bound > self._in_hand else -inf
            refusal = self.refusal(bound)
            if refusal:
                return refusal
            if bound > self._in_hand:
                await asyncio.sleep(ASK_AGAIN_S)
        self._in_hand -= bound
        self.reserved += bound
        self._needed += bound
        return None

    def settle(self, bound: int, cost: int) -> None:
        """A call that `bound` was set aside for has cost this much."""
        self.reserved -= bound
        self._in_hand += bound - cost
        self._untold += cost

    def release(self, bound: int) -> None:
        """A call that `bound` was set aside for has cost nothing."""
        self.settle(bound, 0)

    def lose(self, bound: int) -> None:
        """A call was sent and nobody knows what it cost: all that was set aside counts as spent."""
        self.settle(bound, bound)
        self.lost += bound

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def _draw(self, least: int, want: int, keep: int) -> None:
        spent, returned = self._untold, max(0, self._in_hand - keep)
        self._untold -= spent
        self._in_hand -= returned
        drawn = await self._money.draw(Draw(spent, returned, least, want))
        self._in_hand += drawn.granted
        self.left = drawn.left

    async def _even_out_regularly(self) -> None:
        """Tell what was spent, and keep in hand no more than was needed since the last time."""
        while True:
            await asyncio.sleep(EVEN_OUT_EVERY_S)
            keep, self._needed = self._needed, 0
            if self._untold or self._in_hand > keep:
                async with self._drawing:
                    await self._draw(least=0, want=0, keep=keep)
