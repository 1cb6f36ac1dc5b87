"""Rate limits: requests and tokens a minute of each model, as token buckets on a monotonic clock.

A request reserves its input plus its full output limit; what it then uses is not given back.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

from hab_simulator.accounts import SimulatedModel

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Level:
    """One limit after a request: the allowance a minute, what is left, and seconds until it is full again."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may pass: `wait_s` is 0, or the time until it may; inf if it never may.

    `short` names the limit in its way; `at` is the time of day.
    """

    requests: Level | None
    tokens: Level | None
    wait_s: float
    short: str
    at: datetime

    @property
    def allowed(self) -> bool:
        """Whether the request passes."""
        return self.wait_s == 0


@dataclass(slots=True)
class _Bucket:
    limit: int
    left: float
    at: float

    def wait_s(self, amount: int) -> float:
        if amount > self.limit:
            return inf
        return max(0.0, (amount - self.left) * _MINUTE_S / self.limit)

    def level(self) -> Level:
        return Level(self.limit, int(self.left), (self.limit - self.left) * _MINUTE_S / self.limit)


@dataclass(slots=True)
class RateLimits:
    """The buckets of all accounts and models. `clock` gives monotonic seconds, `calendar` the time of day."""

    clock: Callable[[], float]
    calendar: Callable[[], datetime]
    _buckets: dict[tuple[str, str, str], _Bucket] = field(default_factory=dict)

    def take(self, account: str, name: str, model: SimulatedModel, tokens: int) -> Verdict | None:
        """Take one request of so many tokens, if both limits allow; None where the model has no limits."""
        now = self.clock()
        limits = {"requests": (model.requests_per_minute, 1), "tokens": (model.tokens_per_minute, tokens)}
        asked = {
            unit: (self._bucket((account, name, unit), limit, now), amount)
            for unit, (limit, amount) in limits.items()
            if limit is not None
        }
        if not asked:
            return None
        waits = {unit: bucket.wait_s(amount) for unit, (bucket, amount) in asked.items()}
        short = max(waits, key=waits.__getitem__)
        if waits[short] == 0:
            for bucket, amount in asked.values():
                bucket.left -= amount
        levels = {unit: bucket.level() for unit, (bucket, _) in asked.items()}
        return Verdict(levels.get("requests"), levels.get("tokens"), waits[short], short, self.calendar())

    def _bucket(self, key: tuple[str, str, str], limit: int, now: float) -> _Bucket:
        bucket = self._buckets.setdefault(key, _Bucket(limit, float(limit), now))
        bucket.left = min(float(limit), bucket.left + (now - bucket.at) * limit / _MINUTE_S)
        bucket.at = now
        return bucket
