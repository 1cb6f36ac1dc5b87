"""An event loop that handles network events in bunches while many calls are in flight.

Each wake-up of an event loop costs CPU on top of the event it is for. Waiting a few milliseconds after the first
event lets others arrive, so that one wake-up serves several calls. Nobody notices the delay in answers that take
hundreds of milliseconds; a loop with few calls in flight handles each event at once.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable


class BunchingSelector(selectors.DefaultSelector):
    """Waits for further events after the first one, for `bunch_s` seconds, whenever `is_busy()`."""

    def __init__(self, is_busy: Callable[[], bool], bunch_s: float) -> None:
        super().__init__()
        self._is_busy, self._bunch_s = is_busy, bunch_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See selectors.BaseSelector. A call with timeout 0 never waits: callbacks are ready to run."""
        events = super().select(timeout)
        if not events or timeout == 0 or not self._is_busy():
            return events
        time.sleep(self._bunch_s)
        return super().select(0)  # what was ready before still is: no event has been handled yet


def bunching_loop(is_busy: Callable[[], bool], bunch_s: float) -> asyncio.AbstractEventLoop:
    """An event loop that bunches its events whenever `is_busy()`."""
    return asyncio.SelectorEventLoop(BunchingSelector(is_busy, bunch_s))
