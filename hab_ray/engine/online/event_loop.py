"""An event loop that handles network events in bunches while many calls are in flight.

Each wake-up of an event loop costs CPU on top of the event that it is for. A few milliseconds between two wake-ups
let events gather, so that one wake-up serves several calls. Nobody notices the delay in answers that take hundreds
of milliseconds. A loop with few calls in flight, or one that is behind with its work, does not wait.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from math import inf


class BunchingSelector(selectors.DefaultSelector):
    """Lets `bunch_s` seconds pass between the events of one wake-up and the next whenever `is_busy()`."""

    def __init__(self, is_busy: Callable[[], bool], bunch_s: float) -> None:
        super().__init__()
        self._is_busy, self._bunch_s = is_busy, bunch_s
        self._woken_at = -inf

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See selectors.BaseSelector. A call with timeout 0 never waits: callbacks are ready to run."""
        if timeout == 0 or not self._is_busy():
            return super().select(timeout)
        pause = min(self._woken_at + self._bunch_s - time.monotonic(), inf if timeout is None else timeout)
        if pause > 0:
            time.sleep(pause)
            timeout = None if timeout is None else timeout - pause
        events = super().select(timeout)
        self._woken_at = time.monotonic()
        return events


def bunching_loop(is_busy: Callable[[], bool], bunch_s: float) -> asyncio.AbstractEventLoop:
    """An event loop that bunches its events whenever `is_busy()`."""
    return asyncio.SelectorEventLoop(BunchingSelector(is_busy, bunch_s))
