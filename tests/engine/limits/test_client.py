"""Calls of an engine that wait for permits of a scripted limiter."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf

import pytest

from hab_ray.engine.limits.client import RateLimitClient
from hab_ray.engine.limits.protocol import WHOLE_PROVIDER, Grant, LimiterReply, PermitRequest, Report


class ScriptedLimiter:
    """Grants `free` permits in total and records reports and requests."""

    gap_s = 0.0
    silence_s = inf

    def __init__(self, free: int, wait_s: float | None = inf) -> None:
        self.free, self.wait_s = free, wait_s
        self.reports: list[Report] = []
        self.requests: list[PermitRequest] = []
        self.error: Exception | None = None
        self.closed = False

    async def exchange(self, reports: Sequence[Report], requests: Sequence[PermitRequest]) -> LimiterReply:
        if self.error:
            raise self.error
        self.reports += reports
        self.requests += requests
        return LimiterReply({request.model: self._grant(request) for request in requests}, {})

    def _grant(self, request: PermitRequest) -> Grant:
        count = min(self.free, len(request.tokens))
        self.free -= count
        return Grant(count, self.wait_s, "retired" if self.wait_s is None else "")

    async def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def client_of(limiter: ScriptedLimiter) -> AsyncIterator[RateLimitClient]:
    async with asyncio.timeout(10), RateLimitClient(limiter) as client:
        yield client


async def waiting(client: RateLimitClient, model: str, count: int) -> list[asyncio.Task[str | None]]:
    """Calls of a model that wait for permits, counting 1, 2, 3, ... tokens."""
    tasks = [asyncio.create_task(client.acquire(model, number + 1)) for number in range(count)]
    await asyncio.sleep(0.02)
    return tasks


async def test_one_request() -> None:
    """One exchange asks for all waiting calls; the first of them are admitted."""
    limiter = ScriptedLimiter(free=2)
    async with client_of(limiter) as client:
        calls = await waiting(client, "m", 3)
        assert limiter.requests[0] == PermitRequest("m", (1, 2, 3))
        assert [call.done() for call in calls] == [True, True, False]
    assert await calls[2] == "the engine has ended" and limiter.closed


async def test_full_window() -> None:
    """A finished call makes a full limiter worth another request at once."""
    limiter = ScriptedLimiter(free=1)
    async with client_of(limiter) as client:
        first, second = await waiting(client, "m", 2)
        assert first.done() and not second.done()
        limiter.free = 1
        client.report(Report("m", finished=1, answered=1))
        assert await second is None
    assert limiter.reports == [Report("m", finished=1, answered=1)]


async def test_merged_reports() -> None:
    """Reports on one model reach the limiter as one, with the longest wait and the newest error."""
    limiter = ScriptedLimiter(free=0)
    async with client_of(limiter) as client:
        client.report(Report("m", finished=1, refused="full", retry_after_s=2.0))
        client.report(Report("m", finished=1, refused="full", retry_after_s=1.0))
        client.report(Report("m", finished=1, answered=1))
        client.report(Report("m", finished=1, unreachable="cannot connect"))
        await asyncio.sleep(0.02)
        merged = Report("m", finished=4, answered=1, refused="full", retry_after_s=2.0, unreachable="cannot connect")
        assert limiter.reports == [merged]


async def test_unused_permit() -> None:
    """The permit of a call that was cancelled meanwhile is returned."""
    limiter = ScriptedLimiter(free=0)
    async with client_of(limiter) as client:
        (call,) = await waiting(client, "m", 1)
        call.cancel()
        limiter.free = 1
        client.report(Report("m", refused="full", finished=1))
        await asyncio.sleep(0.02)
        assert limiter.free == 0  # granted to nobody
    assert sum(report.finished for report in limiter.reports) == 2


@pytest.mark.parametrize(
    ("report", "turned_away"), [(Report("m", stop="gone"), {"m"}), (Report("m", stop_provider="gone"), {"m", "n"})]
)
async def test_stops(report: Report, turned_away: set[str]) -> None:
    """A stop turns waiting and later calls away, of the model or of all models."""
    async with client_of(ScriptedLimiter(free=0)) as client:
        calls = {model: (await waiting(client, model, 1))[0] for model in ("m", "n")}
        client.report(report)
        await asyncio.sleep(0)
        assert {model for model, call in calls.items() if call.done() and call.result() == "gone"} == turned_away
        assert await client.acquire("m", 1) == "gone"
        assert client.stops == ({WHOLE_PROVIDER: "gone"} if report.stop_provider else {"m": "gone"})


async def test_never_granted() -> None:
    """Calls that the limiter will never permit get its reason."""
    async with client_of(ScriptedLimiter(free=0, wait_s=None)) as client:
        assert await client.acquire("m", 1) == "retired"


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ConnectionError("the limiter is gone"), "the limiter is gone"), (TimeoutError(), "TimeoutError")],
)
async def test_failed_exchange(error: Exception, reason: str) -> None:
    """If the exchange fails, waiting calls raise its error and later ones are turned away."""
    limiter = ScriptedLimiter(free=0)
    limiter.error = error
    async with client_of(limiter) as client:
        with pytest.raises(type(error)):
            await client.acquire("m", 1)
        assert await client.acquire("m", 1) == reason
