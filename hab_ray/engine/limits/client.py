"""An engine's side of the rate limiter: calls wait here for permits, queued by model.

One task exchanges messages with the limiter. Each exchange requests permits for all waiting calls of all models and
delivers reports on the calls that ended since the last one. Stops of a model or provider take effect immediately.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from time import monotonic
from typing import Self

from hab_ray.engine.limits.buckets import LARGEST_CHUNK
from hab_ray.engine.limits.protocol import (
    WHOLE_PROVIDER,
    Grant,
    LimiterClient,
    LimiterReply,
    Outage,
    PermitRequest,
    Report,
)

REPORT_EVERY_S = 0.5
FULL_RETRY_S = 1.0
MAX_REQUESTED = 2 * LARGEST_CHUNK


@dataclass
class _Waiter:
    """A waiting call. `decided` resolves to None once it may be sent, or to the reason why it never may be."""

    tokens: int
    decided: asyncio.Future[str | None]


@dataclass
class _ModelQueue:
    """The waiting calls of one model.

    Permits are requested at `due`, or earlier if the window is `full` and a call in flight ends.
    """

    waiters: deque[_Waiter] = field(default_factory=deque)
    due: float = -inf
    full: bool = False

    def request(self, model: str) -> PermitRequest:
        """Return a request for the calls at the head of the queue."""
        return PermitRequest(model, tuple(waiter.tokens for waiter in islice(self.waiters, MAX_REQUESTED)))

    def admit(self, count: int) -> int:
        """Admit the first `count` calls that are still waiting; return how many there were."""
        admitted = 0
        while self.waiters and admitted < count:
            waiter = self.waiters.popleft()
            if not waiter.decided.done():
                waiter.decided.set_result(None)
                admitted += 1
        return admitted

    def turn_away(self, reason: str | Exception) -> None:
        for decided in (waiter.decided for waiter in self.waiters if not waiter.decided.done()):
            if isinstance(reason, Exception):
                decided.set_exception(reason)
            else:
                decided.set_result(reason)
        self.waiters.clear()


class RateLimitClient:
    """Permits for one engine's calls. Used as a context manager, on one event loop. `clock` gives monotonic seconds.

    `closed` is the reason why this engine may send nothing more, None while it may. `stops` holds the reasons for
    stopped models, under `WHOLE_PROVIDER` for the provider. `outage` is set while the endpoint is unreachable.
    """

    def __init__(self, limiter: LimiterClient, clock: Callable[[], float] = monotonic) -> None:
        self._limiter, self._clock = limiter, clock
        self._queues: dict[str, _ModelQueue] = {}
        self._reports: dict[str, Report] = {}
        self._last_exchange = clock()
        self._is_unreachable = False
        self._wake = asyncio.Event()
        self.closed: str | None = None
        self.stops: dict[str, str] = {}
        self.outage: Outage | None = None

    async def __aenter__(self) -> Self:
        self._exchanging = asyncio.create_task(self._keep_exchanging())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Deliver the last reports and disconnect."""
        self.close("the engine has ended")
        self._exchanging.cancel()
        with suppress(asyncio.CancelledError, Exception):  # an error was raised to the calls that waited
            await self._exchanging
        with suppress(Exception):
            await self._limiter.exchange(self._take_reports(), ())
            await self._limiter.close()

    async def acquire(self, model: str, tokens: int) -> str | None:
        """Wait for the permit to send a call that counts this many tokens towards rate limits.

        The holder of a permit must return it with a report of `finished=1`.

        Returns:
            None once the call may be sent, else the reason why it never may be.

        Raises:
            Exception: the exchange with the limiter failed.
        """
        reason = self.closed or self.stops.get(WHOLE_PROVIDER) or self.stops.get(model)
        if reason is not None:
            return reason
        queue = self._queues.setdefault(model, _ModelQueue())
        waiter = _Waiter(tokens, asyncio.get_running_loop().create_future())
        queue.waiters.append(waiter)
        if len(queue.waiters) == 1 or queue.due <= self._clock():
            self._wake.set()
        return await waiter.decided

    def report(self, report: Report) -> None:
        """Queue a report for the limiter, and apply it to this engine's own calls."""
        before = self._reports.get(report.model)
        self._reports[report.model] = before.followed_by(report) if before else report
        queue = self._queues.get(report.model)
        if queue and queue.full and queue.waiters and report.finished:
            self._request_now(queue)
        if self._is_unreachable and report.answered:
            self._request_now(*self._queues.values())
        self._is_unreachable = bool(report.unreachable) or (self._is_unreachable and not report.answered)
        if report.stop:
            self._apply_stops({report.model: report.stop})
        if report.stop_provider:
            self._apply_stops({WHOLE_PROVIDER: report.stop_provider})
        if report.is_urgent:
            self._wake.set()

    def close(self, reason: str) -> None:
        """Admit no further call of this engine."""
        self.closed = self.closed or reason
        for queue in self._queues.values():
            queue.turn_away(self.closed)

    def _request_now(self, *queues: _ModelQueue) -> None:
        for queue in queues:
            queue.due = -inf
        self._wake.set()

    async def _keep_exchanging(self) -> None:
        try:
            while True:
                self._wake.clear()
                requests = self._due_requests()
                if requests or self._is_report_due():
                    self._last_exchange = self._clock()
                    self._apply(await self._limiter.exchange(self._take_reports(), requests))
                    await asyncio.sleep(self._limiter.gap_s)
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._idle_s()):
                            await self._wake.wait()
        except Exception as error:
            self.closed = self.closed or str(error) or type(error).__name__
            for queue in self._queues.values():
                queue.turn_away(error)

    def _due_requests(self) -> list[PermitRequest]:
        now = self._clock()
        return [queue.request(model) for model, queue in self._queues.items() if queue.waiters and queue.due <= now]

    def _is_report_due(self) -> bool:
        silent_s = self._clock() - self._last_exchange
        if not self._reports:
            return silent_s >= self._limiter.silence_s
        return silent_s >= REPORT_EVERY_S or any(report.is_urgent for report in self._reports.values())

    def _idle_s(self) -> float | None:
        """Return the seconds until the next exchange is due; None if only a wake-up can make one due."""
        due = [queue.due for queue in self._queues.values() if queue.waiters]
        due.append(self._last_exchange + (REPORT_EVERY_S if self._reports else self._limiter.silence_s))
        return None if min(due) == inf else max(0.0, min(due) - self._clock())

    def _take_reports(self) -> list[Report]:
        reports, self._reports = self._reports, {}
        return list(reports.values())

    def _apply(self, reply: LimiterReply) -> None:
        for model, grant in reply.grants.items():
            self._apply_grant(model, grant)
        self._apply_stops(reply.stops)
        self.outage = reply.outage

    def _apply_grant(self, model: str, grant: Grant) -> None:
        queue = self._queues[model]
        unused = grant.count - queue.admit(grant.count)
        if unused:
            self.report(Report(model, finished=unused))
        if grant.wait_s is None:
            return queue.turn_away(grant.reason)
        queue.full = grant.wait_s == inf
        queue.due = self._clock() + (FULL_RETRY_S if queue.full else grant.wait_s)

    def _apply_stops(self, stops: Mapping[str, str]) -> None:
        self.stops.update(stops)
        for model, queue in self._queues.items():
            reason = stops.get(WHOLE_PROVIDER) or stops.get(model)
            if reason:
                queue.turn_away(reason)
