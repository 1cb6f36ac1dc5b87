"""One limiter for all engines on a provider account, across drivers and nodes, or for a single engine."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hab_ray.catalog.models import Limits
from hab_ray.engine.limits.limiter import Limiter
from hab_ray.engine.limits.protocol import LimiterReply, PermitRequest, Report

LOST_AFTER_S = 30.0


def exchange(
    limiter: Limiter, reports: Sequence[Report], requests: Sequence[PermitRequest], now: float
) -> LimiterReply:
    """Apply reports, then answer requests."""
    for report in reports:
        limiter.report(report, now)
    grants = {request.model: limiter.grant(request.model, request.tokens, now) for request in requests}
    return LimiterReply(grants, limiter.stops, limiter.outage(now))


class LocalLimiterClient:
    """The connection of an account's only engine to a limiter in this process."""

    gap_s = 0.0
    silence_s = float("inf")

    def __init__(self, limits: Mapping[str, Limits], patience_s: float) -> None:
        self._limiter = Limiter(limits, patience_s)

    async def exchange(self, reports: Sequence[Report], requests: Sequence[PermitRequest]) -> LimiterReply:
        return exchange(self._limiter, reports, requests, time.monotonic())

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Enrolment:
    """An engine's request to join a limiter, with the limits of its models.

    It has calls `in_flight` only if its previous limiter was lost.
    """

    engine: str
    limits: Mapping[str, Limits]
    patience_s: float
    in_flight: Mapping[str, int]


@dataclass
class _Engine:
    last_heard: float
    in_flight: Counter[str]


@dataclass
class SharedLimiter:
    """The limiter of one provider account and the engines enrolled in it. Times are seconds of one clock.

    The calls of an engine that has been silent for `LOST_AFTER_S` count as ended.
    """

    _limits: dict[str, Limits] = field(default_factory=dict)
    _engines: dict[str, _Engine] = field(default_factory=dict)
    _limiter: Limiter | None = None

    def enrol(self, enrolment: Enrolment, now: float) -> None:
        """Add an engine. The first engine that names a model sets its limits."""
        for model, limits in enrolment.limits.items():
            self._limits.setdefault(model, limits)
        self._limiter = self._limiter or Limiter(self._limits, enrolment.patience_s)
        if enrolment.engine not in self._engines:
            self._engines[enrolment.engine] = _Engine(now, Counter(enrolment.in_flight))
            for model, count in enrolment.in_flight.items():
                self._limiter.restore(model, count)

    def exchange(
        self, engine: str, reports: Sequence[Report], requests: Sequence[PermitRequest], now: float
    ) -> LimiterReply | None:
        """Apply reports and answer requests; return None if the engine is not enrolled (any more) and must enrol."""
        enrolled = self._engines.get(engine)
        if enrolled is None or self._limiter is None:
            return None
        enrolled.last_heard = now
        reply = exchange(self._limiter, reports, requests, now)
        enrolled.in_flight.subtract({report.model: report.finished for report in reports})
        enrolled.in_flight.update({model: grant.count for model, grant in reply.grants.items()})
        return reply

    def leave(self, engine: str, now: float) -> None:
        """Remove an engine and its calls in flight. When the last one leaves, drop all state."""
        left = self._engines.pop(engine, None)
        if left and self._limiter:
            for model, count in left.in_flight.items():
                self._limiter.report(Report(model, finished=count), now)
        if not self._engines:
            self._limiter, self._limits = None, {}

    def drop_silent(self, now: float) -> None:
        """Remove engines that have been silent for more than `LOST_AFTER_S`."""
        for name in [name for name, engine in self._engines.items() if now - engine.last_heard > LOST_AFTER_S]:
            self.leave(name, now)

    @property
    def is_empty(self) -> bool:
        """Whether no engine is enrolled."""
        return not self._engines
