"""The limits of a model: amounts per minute (token buckets) and calls in flight (an adaptive window)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from hab_ray.providers.base import Allowance

MINUTE_S = 60.0
MARGIN = 0.985  # with a burst of 0.9 s, even the busiest minute stays within the limit
BURST_S = 0.9
CHUNK_S = 0.5
LARGEST_CHUNK = 64
MAX_HOLD_S = 5.0
FIRST_WINDOW = 32
FIRST_WINDOW_S = 1.5
_SHRINK = 0.7
_SHRINK_EVERY_S = 1.0
_SLOW_FROM = 0.9
_SLOW_GROWTH = 0.1
_EPSILON = 1e-6


@dataclass
class Bucket:
    """One limit per minute: the lower of `ours`, the configured one, and `vendors`, the one from response headers.

    The initial `level` is safe whatever was sent before. The bucket holds at most `BURST_S` of its rate, so that
    permits are spread evenly. Taking more than it holds leaves it in debt, which keeps the rate exact.
    """

    ours: int | None
    level: float
    vendors: int | None = None
    at: float | None = None
    held_until: float = -inf

    @property
    def per_s(self) -> float:
        """The amount per second; inf if no limit is known."""
        known = [limit for limit in (self.ours, self.vendors) if limit is not None]
        return MARGIN * min(known) / MINUTE_S if known else inf

    @property
    def _capacity(self) -> float:
        return 1.0 + self.per_s * BURST_S

    def wait_s(self, cost: float, now: float) -> float:
        """Return the seconds until `cost` may be taken, 0 if it may be taken now."""
        held = max(0.0, self.held_until - now)
        if self.per_s == inf:
            return held
        self._refill(now)
        missing = min(cost, self._capacity) - self.level
        return max(held, missing / self.per_s if missing > _EPSILON else 0.0)

    def chunk_wait_s(self, first: float, total: float, now: float) -> float:
        """Return the seconds until the next request pays off: `first` of `total` can be taken, or a whole chunk."""
        worth = self.per_s * CHUNK_S if self.per_s < inf else 0.0
        return self.wait_s(max(first, min(total, worth)), now)

    def take(self, cost: float) -> None:
        if self.per_s < inf:
            self.level -= cost

    def learn(self, stated: Allowance, now: float) -> None:
        """Adopt the vendor's limit, the remaining amount, and the reset time if nothing remains."""
        if self.per_s < inf:
            self._refill(now)
        self.vendors = stated.limit
        if stated.remaining is not None:
            self.level = min(self.level, stated.remaining)
        if stated.remaining == 0 and stated.reset_s:
            self.held_until = now + min(stated.reset_s, MAX_HOLD_S)

    def _refill(self, now: float) -> None:
        if self.at is not None:
            self.level = min(self._capacity, self.level + (now - self.at) * self.per_s)
        self.at = now


@dataclass
class Window:
    """An adaptive limit on calls in flight. Answers widen it while it is full; a refusal narrows it by a third."""

    ceiling: int
    size: float
    in_flight: int = 0
    slow_above: float = inf
    shrunk_at: float = -inf

    @classmethod
    def of(cls, ceiling: int, per_s: float) -> Window:
        """Return the initial window of a model that is limited to `per_s` calls per second, inf if unknown.

        A known rate already protects the vendor: the window starts with the calls in flight at that rate.
        """
        known = 0 if per_s == inf else round(per_s * FIRST_WINDOW_S)
        return cls(ceiling, float(min(max(FIRST_WINDOW, known), ceiling)))

    @property
    def free(self) -> int:
        """The number of calls that may be sent now."""
        return max(0, int(self.size) - self.in_flight)

    def finished(self, count: int, answered: int) -> None:
        """Count ended calls. Each answer widens a full window by 1, or by 0.1 above `slow_above`."""
        if self.in_flight == int(self.size):
            quick = min(float(answered), max(0.0, self.slow_above - self.size))
            self.size = min(float(self.ceiling), self.size + quick + _SLOW_GROWTH * (answered - quick))
        self.in_flight = max(0, self.in_flight - count)

    def refused(self, now: float) -> None:
        """Narrow the window after the vendor refused a call as too fast."""
        if now - self.shrunk_at < _SHRINK_EVERY_S:
            return
        self.shrunk_at = now
        reached = min(self.size, max(1.0, float(self.in_flight)))
        self.slow_above = _SLOW_FROM * reached
        self.size = max(1.0, _SHRINK * reached)
