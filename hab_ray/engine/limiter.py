"""How fast a provider may be called: one pure class, its clock passed in with every question.

States of an account and of each of its models:

    open ── endpoint unreachable ──> waiting (one probe at a time, further and further apart)
    waiting ── a probe succeeds ──> open        waiting ── patience runs out ──> stopped
    open ── bad key, no quota ──> stopped       model: open ── retired, unknown ──> stopped
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hab_ray.catalog import Limits

FIRST_PROBE_S = 0.5
SLOWEST_PROBE_S = 15.0


@dataclass
class _Window:
    """A model's calls in flight: how many there are and how many there may be."""

    most: int
    in_flight: int = 0
    paused_until: float = float("-inf")
    refusals: int = 0
    refused_since: float = 0.0
    stopped: str | None = None


@dataclass
class _Outage:
    """Since when an endpoint has not been reachable, and when it is tried next."""

    since: float
    next_probe: float
    probe_gap: float = FIRST_PROBE_S


@dataclass(frozen=True)
class Permit:
    """May a call be sent? `wait_s` is 0 when it may (it then counts as in flight), None when it never may."""

    wait_s: float | None
    reason: str = ""


@dataclass
class Limiter:
    """The limits of one provider account. Times are seconds of one monotonic clock."""

    limits: Mapping[str, Limits]
    patience_s: float
    _windows: dict[str, _Window] = field(default_factory=dict)
    _outage: _Outage | None = None
    _stopped: str | None = None

    def ask(self, model: str, now: float) -> Permit:
        """Ask to send one call of a model."""
        window = self._window(model)
        stopped = self._stopped or window.stopped
        if stopped:
            return Permit(None, stopped)
        if window.in_flight >= window.most:
            return Permit(float("inf"))
        wait = max(0.0, window.paused_until - now)
        if self._outage:
            wait = max(wait, self._outage.next_probe - now)
            if wait <= 0:
                self._outage.probe_gap = min(2 * self._outage.probe_gap, SLOWEST_PROBE_S)
                self._outage.next_probe = now + self._outage.probe_gap
        if wait <= 0:
            window.in_flight += 1
        return Permit(max(0.0, wait))

    def finished(self, model: str) -> None:
        """A call of a model is no longer in flight, whatever came of it."""
        self._window(model).in_flight -= 1

    def answered(self, model: str) -> None:
        """The endpoint answered a call of a model with something else than "too fast"."""
        self._outage = None
        self._window(model).refusals = 0

    def unreachable(self, message: str, now: float) -> None:
        """The endpoint did not answer; when patience runs out the provider is stopped."""
        if self._outage is None:
            self._outage = _Outage(since=now, next_probe=now + FIRST_PROBE_S)
        elif now - self._outage.since > self.patience_s:
            self._stopped = f"not reachable for {self.patience_s:g} s ({message})"

    def rate_limited(self, model: str, retry_after_s: float | None, now: float) -> None:
        """Pause a model, as long as the vendor says or longer from refusal to refusal.

        A model that is refused for as long as patience lasts, without one answer between, is stopped.
        """
        self._outage = None
        window = self._window(model)
        if window.refusals == 0:
            window.refused_since = now
        elif now - window.refused_since > self.patience_s:
            window.stopped = f"rate limited for {self.patience_s:g} s without an answer"
        if now >= window.paused_until:
            window.refusals += 1
        pause = min(SLOWEST_PROBE_S, FIRST_PROBE_S * 2.0 ** min(window.refusals, 10))
        window.paused_until = max(window.paused_until, now + (pause if retry_after_s is None else retry_after_s))

    def stop_model(self, model: str, reason: str) -> None:
        """No further call to a model in this run."""
        self._window(model).stopped = reason

    def stop(self, reason: str) -> None:
        """No further call to the provider in this run."""
        self._stopped = reason

    @property
    def stops(self) -> Mapping[str, str]:
        """What was stopped and why; "" stands for the whole provider."""
        models = {name: w.stopped for name, w in self._windows.items() if w.stopped}
        return {"": self._stopped} if self._stopped else models

    def in_flight(self, model: str) -> int:
        """Calls of a model that are under way."""
        return self._window(model).in_flight

    def _window(self, model: str) -> _Window:
        if model not in self._windows:
            self._windows[model] = _Window(most=self.limits[model].concurrent)
        return self._windows[model]
