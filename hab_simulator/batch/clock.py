"""The vendor's clock: it starts at the time of day and runs `speed` times as fast."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf


@dataclass(frozen=True, slots=True)
class VendorClock:
    """Seconds since 1970 as the vendor sees them: `began` at `monotonic() == zero`."""

    began: float
    zero: float
    speed: float
    monotonic: Callable[[], float]

    @classmethod
    def start(cls, began: float, speed: float, monotonic: Callable[[], float]) -> VendorClock:
        """A clock that shows `began` now."""
        return cls(began, monotonic(), speed, monotonic)

    def now(self) -> float:
        return self.began + (self.monotonic() - self.zero) * self.speed

    async def until(self, at: float, sooner: asyncio.Event) -> bool:
        """Sleep until a time of this clock; False if `sooner` was set before it."""
        seconds = None if at == inf else max(0.0, (at - self.now()) / self.speed)
        try:
            async with asyncio.timeout(seconds):
                await sooner.wait()
        except TimeoutError:
            return True
        return False


def rfc3339(at: float) -> str:
    """A time in UTC as Anthropic and Google write it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
