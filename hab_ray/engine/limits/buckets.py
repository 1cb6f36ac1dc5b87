"""What a model takes: so much a minute (token buckets), and so many calls at once (a window that adapts)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from hab_ray.providers.base import Allowance

MINUTE_S = 60.0
MARGIN = 0.985  # with a burst of 0.9 s even the busiest minute holds no more than the limit
BURST_S = 0.9
CHUNK_S = 0.5
LARGEST_CHUNK = 64
LONGEST_HOLD_S = 5.0
FIRST_WINDOW = 32
_SHRINK = 0.7
_SHRINK_EVERY_S = 1.0
_NEAR_PAIN = 0.9
_CAREFUL = 0.1
_EPSILON = 1e-6


@dataclass
class Bucket:
    """One limit a minute. `ours` is the configured limit, `vendors` what headers told; the lower one holds.

    It starts with a `level` that is safe whatever was sent before, and holds at most `BURST_S` of its rate, so
    that permits come smoothly. What costs more than that leaves it in debt, and its rate stays right.
    """

    ours: int | None
    level: float
    vendors: int | None = None
    at: float | None = None
    held_until: float = -inf

    @property
    def per_s(self) -> float:
        """What is let through in a second; inf where no limit is known."""
        known = [limit for limit in (self.ours, self.vendors) if limit is not None]
        return MARGIN * min(known) / MINUTE_S if known else inf

    @property
    def _most(self) -> float:
        return 1.0 + self.per_s * BURST_S

    def wait_s(self, cost: float, now: float) -> float:
        """Seconds until something of this cost may pass; 0 when it may."""
        held = max(0.0, self.held_until - now)
        if self.per_s == inf:
            return held
        self._refill(now)
        missing = min(cost, self._most) - self.level
        return max(held, missing / self.per_s if missing > _EPSILON else 0.0)

    def chunk_wait_s(self, first: float, all_of_them: float, now: float) -> float:
        """Seconds until it is worth coming back for more: for the first of these costs, better for many."""
        worth = self.per_s * CHUNK_S if self.per_s < inf else 0.0
        return self.wait_s(max(first, min(all_of_them, worth)), now)

    def take(self, cost: float) -> None:
        """Something of this cost passes."""
        if self.per_s < inf:
            self.level -= cost

    def learn(self, told: Allowance, now: float) -> None:
        """Keep to what the vendor says: its limit, what it says is left, and its reset where nothing is left."""
        if self.per_s < inf:
            self._refill(now)
        self.vendors = told.limit
        if told.remaining is not None:
            self.level = min(self.level, told.remaining)
        if told.remaining == 0 and told.reset_s:
            self.held_until = now + min(told.reset_s, LONGEST_HOLD_S)

    def _refill(self, now: float) -> None:
        if self.at is not None:
            self.level = min(self._most, self.level + (now - self.at) * self.per_s)
        self.at = now


@dataclass
class Window:
    """The calls in flight: it opens while it is full and answers come, and closes by a third when refused."""

    ceiling: int
    size: float
    in_flight: int = 0
    painful: float = inf
    shrunk_at: float = -inf

    @classmethod
    def of(cls, ceiling: int) -> Window:
        """The window of a model of which nothing is known yet."""
        return cls(ceiling, float(min(FIRST_WINDOW, ceiling)))

    @property
    def free(self) -> int:
        """How many more calls may be sent."""
        return max(0, int(self.size) - self.in_flight)

    def finished(self, count: int, answered: int) -> None:
        """So many calls ended. Each answer to a full window opens it by one, near the last pain by a tenth."""
        if self.in_flight == int(self.size):
            quick = min(float(answered), max(0.0, self.painful - self.size))
            self.size = min(float(self.ceiling), self.size + quick + _CAREFUL * (answered - quick))
        self.in_flight = max(0, self.in_flight - count)

    def refused(self, now: float) -> None:
        """The vendor said "too fast"."""
        if now - self.shrunk_at < _SHRINK_EVERY_S:
            return
        self.shrunk_at = now
        reached = min(self.size, max(1.0, float(self.in_flight)))
        self.painful = _NEAR_PAIN * reached
        self.size = max(1.0, _SHRINK * reached)
