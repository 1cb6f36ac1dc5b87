"""Where a lane's calls wait for their permits.

Calls queue by model; one task asks for permits for as many of them as wait, in one exchange for all models, and
tells on the way what became of the calls before. What stops a model or the provider holds here at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Self

from hab_ray.engine.limits.buckets import LARGEST_CHUNK
from hab_ray.engine.limits.protocol import WHOLE_PROVIDER, Grant, LimiterClient, LimiterReply, PermitRequest, Report
from hab_ray.errors import RateLimited
from hab_ray.providers.base import RateLimits

REPORT_EVERY_S = 0.5
FULL_AGAIN_S = 1.0
MOST_ASKED = 2 * LARGEST_CHUNK


@dataclass
class _Waiter:
    """A call that waits; its future becomes None when it may be sent, else the reason why it never may."""

    tokens: int
    decided: asyncio.Future[str | None]


@dataclass
class _Line:
    """One model's waiting calls; `due` is when to ask for them, sooner if `full` and one in flight ends."""

    waiters: deque[_Waiter] = field(default_factory=deque)
    due: float = -inf
    full: bool = False

    def first(self) -> tuple[int, ...]:
        return tuple(waiter.tokens for waiter in islice(self.waiters, MOST_ASKED))

    def let_pass(self, count: int) -> int:
        """Decide for the first that still wait; how many that were."""
        passed = 0
        while self.waiters and passed < count:
            waiter = self.waiters.popleft()
            if not waiter.decided.done():
                waiter.decided.set_result(None)
                passed += 1
        return passed

    def turn_away(self, reason: str) -> None:
        for waiter in self.waiters:
            if not waiter.decided.done():
                waiter.decided.set_result(reason)
        self.waiters.clear()


class RateLimitClient:
    """A lane's permits. Used as a context; it works on one event loop. `clock` gives monotonic seconds."""

    def __init__(self, permits: LimiterClient, clock: Callable[[], float]) -> None:
        self._permits, self._clock = permits, clock
        self._lines: dict[str, _Line] = {}
        self._news: dict[str, Report] = {}
        self._told_at = clock()
        self._away = False
        self._wake = asyncio.Event()
        self.closed: str | None = None
        self.stops: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._asking = asyncio.create_task(self._keep_asking())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Tell what was not told yet, and let go."""
        self.close("the engine has ended")
        self._asking.cancel()
        with suppress(asyncio.CancelledError, Exception):  # what it ended of was raised to the calls that waited
            await self._asking
        with suppress(Exception):
            await self._permits.exchange(self._take_news(), ())
            await self._permits.close()

    async def permit(self, model: str, tokens: int) -> str | None:
        """Wait until a call that counts so many tokens may be sent; the reason, if it never may.

        Each permit ends with `answered`, `refused`, `unreachable` or `ended`. Raises what broke the exchange.
        """
        reason = self.closed or self.stops.get(WHOLE_PROVIDER) or self.stops.get(model)
        if reason is not None:
            return reason
        line = self._lines.setdefault(model, _Line())
        waiter = _Waiter(tokens, asyncio.get_running_loop().create_future())
        line.waiters.append(waiter)
        if len(line.waiters) == 1 or line.due <= self._clock():
            self._wake.set()
        return await waiter.decided

    def answered(self, model: str, limits: RateLimits | None) -> None:
        """A call ended with something else than "too fast"; what its headers told of the limits."""
        now = self._report(model)
        self._news[model] = replace(now, answered=now.answered + 1, limits=limits or now.limits)
        if self._away:
            self._away = False
            self._ask_soon(*self._lines)

    def ended(self, model: str) -> None:
        """A call ended in a way that says nothing about limits, or was not sent."""
        self._report(model)

    def refused(self, model: str, error: RateLimited) -> None:
        """A call ended with "too fast"."""
        now = self._report(model)
        waits = [wait for wait in (now.retry_after_s, error.retry_after_s) if wait is not None]
        self._news[model] = replace(now, refused=True, retry_after_s=max(waits, default=None))
        self._wake.set()

    def unreachable(self, model: str, message: str) -> None:
        """A call ended because the endpoint is not there."""
        self._away = True
        self._news[model] = replace(self._report(model), unreachable=message)
        self._wake.set()

    def stop_model(self, model: str, reason: str) -> None:
        """No further call to a model."""
        self._news[model] = replace(self._news.get(model, Report(model)), stop=reason)
        self._heed({model: reason})
        self._wake.set()

    def stop_provider(self, model: str, reason: str) -> None:
        """No further call to the provider, for what one of its models' calls was told."""
        self._news[model] = replace(self._news.get(model, Report(model)), stop_provider=reason)
        self._heed({WHOLE_PROVIDER: reason})
        self._wake.set()

    def close(self, reason: str) -> None:
        """Give nothing more to this lane."""
        self.closed = self.closed or reason
        for line in self._lines.values():
            line.turn_away(self.closed)

    def _report(self, model: str) -> Report:
        """Note that one more call of a model has ended."""
        before = self._news.get(model, Report(model))
        now = self._news[model] = replace(before, finished=before.finished + 1)
        line = self._lines.get(model)
        if line and line.waiters and line.full:
            self._ask_soon(model)
        return now

    def _ask_soon(self, *models: str) -> None:
        for model in models:
            self._lines[model].due = -inf
        self._wake.set()

    async def _keep_asking(self) -> None:
        try:
            while True:
                self._wake.clear()
                asks = self._due_asks()
                if asks or self._should_tell():
                    self._told_at = self._clock()
                    self._heed_all(await self._permits.exchange(self._take_news(), asks))
                    await asyncio.sleep(self._permits.gap_s)
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._idle_s()):
                            await self._wake.wait()
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        self.closed = self.closed or str(error)
        for line in self._lines.values():
            for waiter in line.waiters:
                if not waiter.decided.done():
                    waiter.decided.set_exception(error)
            line.waiters.clear()

    def _due_asks(self) -> list[PermitRequest]:
        now = self._clock()
        due = ((model, line.first()) for model, line in self._lines.items() if line.due <= now)
        return [PermitRequest(model, tokens) for model, tokens in due if tokens]

    def _should_tell(self) -> bool:
        silent = self._clock() - self._told_at
        if not self._news:
            return silent >= self._permits.silence_s
        return silent >= REPORT_EVERY_S or any(report.is_urgent for report in self._news.values())

    def _idle_s(self) -> float | None:
        now = self._clock()
        coming = [line.due - now for line in self._lines.values() if line.waiters]
        coming.append(self._told_at - now + (REPORT_EVERY_S if self._news else self._permits.silence_s))
        wait = min(coming)
        return None if wait == inf else max(0.0, wait)

    def _take_news(self) -> list[Report]:
        news, self._news = self._news, {}
        return list(news.values())

    def _heed_all(self, granted: LimiterReply) -> None:
        for model, lease in granted.grants.items():
            self._heed_lease(model, lease)
        self._heed(granted.stops)

    def _heed_lease(self, model: str, lease: Grant) -> None:
        line = self._lines[model]
        passed = line.let_pass(lease.count)
        for _ in range(lease.count - passed):
            self.ended(model)
        if lease.wait_s is None:
            return line.turn_away(lease.reason)
        line.full = lease.wait_s == inf
        line.due = self._clock() + (FULL_AGAIN_S if line.full else lease.wait_s)

    def _heed(self, stops: Mapping[str, str]) -> None:
        self.stops.update(stops)
        for model, line in self._lines.items():
            reason = stops.get(WHOLE_PROVIDER) or stops.get(model)
            if reason:
                line.turn_away(reason)
