"""The rate limiter of a provider account: one pure class; every call passes in the time.

States of an account and of each of its models:

    open ── endpoint unreachable ──> waiting (one probe at a time, at growing intervals)
    waiting ── a probe succeeds ──> open        waiting ── patience runs out ──> stopped
    open ── bad key, no quota ──> stopped       model: open ── retired, unknown ──> stopped
    model: open ── "too fast", no capacity ──> paused ── the vendor's wait is over ──> open, with a smaller window
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from hab_ray.catalog.models import Limits
from hab_ray.engine.limits.buckets import LARGEST_CHUNK, Bucket, Window
from hab_ray.engine.limits.protocol import WHOLE_PROVIDER, Grant, Outage, Report

FIRST_PROBE_S = 0.5
SLOWEST_PROBE_S = 15.0
SHOWN_AFTER_S = 10.0


@dataclass
class _Model:
    requests: Bucket
    tokens: Bucket
    window: Window
    paused_until: float = -inf
    refusals: int = 0
    refused_since: float = 0.0
    refused: str = ""
    stopped: str = ""

    @classmethod
    def of(cls, limits: Limits) -> _Model:
        requests = Bucket(limits.requests_per_minute, level=1.0)
        window = Window.of(limits.concurrent, requests.per_s)
        return cls(requests, Bucket(limits.tokens_per_minute, level=0.0), window)


@dataclass
class _Outage:
    since: float
    next_probe: float
    cause: str
    tries: int = 0
    probe_gap: float = FIRST_PROBE_S


@dataclass
class Limiter:
    """The limits of one provider account. Times are seconds of one monotonic clock."""

    limits: Mapping[str, Limits]
    patience_s: float
    _models: dict[str, _Model] = field(default_factory=dict)
    _outage: _Outage | None = None
    _stopped: str = ""

    def grant(self, model: str, tokens: Sequence[int], now: float) -> Grant:
        """Grant permits for calls of a model; `tokens` holds what each call counts towards the token limit."""
        state = self._model(model)
        if self._stopped or state.stopped:
            return Grant(0, None, self._stopped or state.stopped)
        opens_at = max(state.paused_until, self._outage.next_probe if self._outage else -inf)
        if opens_at > now:
            return Grant(0, opens_at - now)
        room = min(state.window.free, len(tokens))
        count = self._take(state, tokens[: min(room, 1) if self._outage else room], now)
        if count and self._outage:
            self._outage.probe_gap = min(2 * self._outage.probe_gap, SLOWEST_PROBE_S)
            self._outage.next_probe = now + self._outage.probe_gap
            return Grant(count, self._outage.probe_gap)
        return Grant(count, self._retry_s(state, tokens[count : count + LARGEST_CHUNK], now))

    @staticmethod
    def _take(state: _Model, tokens: Sequence[int], now: float) -> int:
        count = 0
        for cost in tokens:
            if state.requests.wait_s(1, now) > 0 or state.tokens.wait_s(cost, now) > 0:
                break
            state.requests.take(1)
            state.tokens.take(cost)
            count += 1
        state.window.in_flight += count
        return count

    @staticmethod
    def _retry_s(state: _Model, rest: Sequence[int], now: float) -> float:
        if not rest:
            return 0.0
        if not state.window.free:
            return inf
        by_requests = state.requests.chunk_wait_s(1, len(rest), now)
        return max(by_requests, state.tokens.chunk_wait_s(rest[0], sum(rest), now))

    def report(self, report: Report, now: float) -> None:
        if report.answered:
            self._outage = None
            self._model(report.model).refusals = 0
        if report.refused:
            self._refused(report, now)
        if report.unreachable:
            self._unreachable(report, now)
        state = self._model(report.model)
        if report.limits and report.limits.requests:
            state.requests.learn(report.limits.requests, now)
        if report.limits and report.limits.tokens:
            state.tokens.learn(report.limits.tokens, now)
        state.window.finished(report.finished, report.answered)
        state.stopped = report.stop or state.stopped
        self._stopped = self._stopped or report.stop_provider

    def _unreachable(self, report: Report, now: float) -> None:
        if self._outage is None:
            self._outage = _Outage(since=now, next_probe=now + FIRST_PROBE_S, cause=report.unreachable)
        elif now - self._outage.since > self.patience_s:
            self._stopped = f"not reachable for {self.patience_s:g} s ({report.unreachable})"
        self._outage.cause = report.unreachable
        self._outage.tries += report.tries

    def outage(self, now: float) -> Outage | None:
        """Return the current outage; None while the endpoint answers, and after the provider is stopped.

        A model that has refused every call for `SHOWN_AFTER_S` counts as an outage.
        """
        if self._stopped:
            return None
        if self._outage:
            return Outage(self._outage.cause, self._outage.tries, self._left_s(self._outage.since, now))
        refusing = [
            (state.refused_since, name)
            for name, state in self._models.items()
            if state.refusals and not state.stopped and now - state.refused_since >= SHOWN_AFTER_S
        ]
        if not refusing:
            return None
        since, name = min(refusing)
        state = self._models[name]
        return Outage(f"{name}: {state.refused}", state.refusals, self._left_s(since, now))

    def _left_s(self, since: float, now: float) -> float:
        return max(0.0, since + self.patience_s - now)

    def _refused(self, report: Report, now: float) -> None:
        """Pause a model for as long as the vendor asks (0 s is no wait), or for a time that doubles with each refusal.

        Stop it if the vendor asks for more than `patience_s`, or refuses all calls for that long.
        """
        self._outage = None
        state, retry_after_s = self._model(report.model), report.retry_after_s
        state.refused = report.refused
        state.window.refused(now)
        if retry_after_s is not None and retry_after_s > self.patience_s:
            state.stopped = (
                f"{report.refused} (the vendor asks to wait {retry_after_s:g} s, and patience_s is {self.patience_s:g})"
            )
        if state.refusals == 0:
            state.refused_since = now
        elif now - state.refused_since > self.patience_s:
            state.stopped = f"refused for {self.patience_s:g} s without an answer: {report.refused}"
        if now >= state.paused_until:
            state.refusals += 1
        pause = min(SLOWEST_PROBE_S, FIRST_PROBE_S * 2.0 ** min(state.refusals, 10))
        state.paused_until = max(state.paused_until, now + (retry_after_s or pause))

    def restore(self, model: str, in_flight: int) -> None:
        """Count calls in flight that a lost limiter had permitted."""
        self._model(model).window.in_flight += in_flight

    @property
    def stops(self) -> Mapping[str, str]:
        """The reason for each stopped model; only `WHOLE_PROVIDER` once the provider is stopped."""
        models = {name: state.stopped for name, state in self._models.items() if state.stopped}
        return {WHOLE_PROVIDER: self._stopped} if self._stopped else models

    def _model(self, model: str) -> _Model:
        if model not in self._models:
            self._models[model] = _Model.of(self.limits[model])
        return self._models[model]
