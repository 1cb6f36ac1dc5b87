"""The lanes that share one limiter: in this process a single one, in a cluster those of all drivers and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hab_ray.catalog import Limits
from hab_ray.engine.limits.limiter import Limiter
from hab_ray.engine.limits.protocol import LimiterReply, PermitRequest, Report

LOST_AFTER_S = 30.0


def exchange(limiter: Limiter, reports: Sequence[Report], asks: Sequence[PermitRequest], now: float) -> LimiterReply:
    """Take in reports, then answer questions."""
    for report in reports:
        limiter.report(report, now)
    return LimiterReply({ask.model: limiter.grant(ask.model, ask.tokens, now) for ask in asks}, limiter.stops)


class LocalLimiterClient:
    """LimiterClient for the one lane of a limiter in this process."""

    gap_s = 0.0
    silence_s = float("inf")

    def __init__(self, limiter: Limiter, clock: Callable[[], float]) -> None:
        self._limiter, self._clock = limiter, clock

    async def exchange(self, reports: Sequence[Report], asks: Sequence[PermitRequest]) -> LimiterReply:
        """See LimiterClient."""
        return exchange(self._limiter, reports, asks, self._clock())

    async def close(self) -> None:
        """See LimiterClient."""


@dataclass(frozen=True)
class Enrolment:
    """What a lane says of itself when it comes: its limits, and its calls in flight if an account was lost."""

    lane: str
    limits: Mapping[str, Limits]
    patience_s: float
    in_flight: Mapping[str, int]


@dataclass
class _Lane:
    heard: float
    in_flight: Counter[str]


@dataclass
class SharedLimiter:
    """One provider account's limiter and the lanes that lease from it. Times are seconds of one clock.

    What a lane that falls silent had in flight is taken as ended after `LOST_AFTER_S`.
    """

    _limits: dict[str, Limits] = field(default_factory=dict)
    _lanes: dict[str, _Lane] = field(default_factory=dict)
    _limiter: Limiter | None = None

    def enrol(self, lane: Enrolment, now: float) -> None:
        """Take in a lane. A model's limits are those of the lane that named it first."""
        for model, limits in lane.limits.items():
            self._limits.setdefault(model, limits)
        self._limiter = self._limiter or Limiter(self._limits, lane.patience_s)
        if lane.lane not in self._lanes:
            self._lanes[lane.lane] = _Lane(now, Counter(lane.in_flight))
            for model, count in lane.in_flight.items():
                self._limiter.restore(model, count)

    def exchange(
        self, lane: str, reports: Sequence[Report], asks: Sequence[PermitRequest], now: float
    ) -> LimiterReply | None:
        """See LimiterClient; None to a lane that is not known here (any more) and has to enrol."""
        known = self._lanes.get(lane)
        if known is None or self._limiter is None:
            return None
        known.heard = now
        granted = exchange(self._limiter, reports, asks, now)
        known.in_flight.subtract({report.model: report.finished for report in reports})
        known.in_flight.update({model: lease.count for model, lease in granted.grants.items()})
        return granted

    def leave(self, lane: str, now: float) -> None:
        """A lane ends; what it had in flight counts no more. Nothing is remembered once all are gone."""
        left = self._lanes.pop(lane, None)
        if left and self._limiter:
            for model, count in left.in_flight.items():
                self._limiter.report(Report(model, finished=count), now)
        if not self._lanes:
            self._limiter, self._limits = None, {}

    def drop_silent(self, now: float) -> None:
        """Let go of lanes that have not been heard of."""
        for name in [name for name, lane in self._lanes.items() if now - lane.heard > LOST_AFTER_S]:
            self.leave(name, now)

    @property
    def is_empty(self) -> bool:
        """Whether no lane is left."""
        return not self._lanes
