"""The reservations of one engine that wait for money."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

WAITS_AFTER_S = 2.0


@dataclass(eq=False)
class _Waiting:
    bound: int
    since: float


class WaitingReservations:
    """What is asked for and not granted yet, in nano-dollars. Only what was not granted for `after_s` seconds waits.

    Call it from the engine's event loop only.
    """

    def __init__(self, after_s: float = WAITS_AFTER_S) -> None:
        self._after_s = after_s
        self._asked: dict[_Waiting, None] = {}

    @contextmanager
    def asked(self, bound: int) -> Iterator[None]:
        """While a reservation is asked for."""
        one = _Waiting(bound, time.monotonic())
        self._asked[one] = None
        try:
            yield
        finally:
            del self._asked[one]

    @property
    def smallest(self) -> int:
        """The smallest one that waits; 0 if none does."""
        latest = time.monotonic() - self._after_s
        return min((one.bound for one in self._asked if one.since <= latest), default=0)
