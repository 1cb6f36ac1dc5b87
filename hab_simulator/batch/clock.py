"""The vendor's clock, which starts at the time of day and runs `speed` times as fast; giving way in long work."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from time import perf_counter

_SLICE_S = 0.003


class VendorClock:
    """Seconds since 1970 as the vendor sees them: `began` now."""

    def __init__(self, began: float, speed: float, monotonic: Callable[[], float]) -> None:
        self._began, self._zero, self._speed, self._monotonic = began, monotonic(), speed, monotonic

    def now(self) -> float:
        return self._began + (self._monotonic() - self._zero) * self._speed

    async def until(self, at: float, sooner: asyncio.Event) -> bool:
        """Sleep until a time of this clock; False if `sooner` was set before it."""
        seconds = None if at == inf else max(0.0, (at - self.now()) / self._speed)
        try:
            async with asyncio.timeout(seconds):
                await sooner.wait()
        except TimeoutError:
            return True
        return False


def rfc3339(at: float) -> str:
    """A time in UTC as Anthropic and Google write it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


@dataclass(slots=True)
class Pacer:
    """Gives way to other requests after every slice of work."""

    _until: float = field(default_factory=lambda: perf_counter() + _SLICE_S)

    async def pause(self) -> None:
        if perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = perf_counter() + _SLICE_S
