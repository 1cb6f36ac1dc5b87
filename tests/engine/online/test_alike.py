"""Calls that are refused, or answered malformed, in the same way again and again stop their model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hab_ray.catalog.models import Limits
from hab_ray.engine.alike import MIN_ALIKE, AlikeRefusals
from hab_ray.engine.online import retries
from hab_ray.errors import FailureKind
from tests.engine.bench import chat, engine_at, jobs, stream

ONE_AT_A_TIME = Limits(concurrent=1, patience_s=5, timeout_s=10)
ANSWER = {
    "model": "a",
    "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}


def refusal(words: str) -> dict[str, Any]:
    return {"error": {"message": words, "type": "invalid_request_error"}}


@dataclass
class Scripted:
    """A vendor that answers the n-th call (from 0) as `script` says: a status and a body."""

    script: Callable[[int], tuple[int, Any]]
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        status, body = self.script(self.calls)
        self.calls += 1
        return web.json_response(body, status=status, headers=self.headers)


@asynccontextmanager
async def scripted(script: Callable[[int], tuple[int, Any]]) -> AsyncIterator[Scripted]:
    vendor = Scripted(script)
    runner = web.ServerRunner(web.Server(vendor.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    vendor.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield vendor
    finally:
        await runner.cleanup()


def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)


async def test_calls_refused_alike_stop_the_model(tmp_path: Path) -> None:
    """Words that differ in ids and numbers alone are alike; the vendor's words and the remedy are told."""
    words = "tools.0: unexpected field in req_{0}ab, {0} bytes"
    async with scripted(lambda n: (400, refusal(words.format(n)))) as vendor:
        async with engine_at(vendor.url, tmp_path, "a", limits=ONE_AT_A_TIME) as b:
            async with b.engine:
                await b.engine.complete(stream(jobs([chat("a", f"question {n}") for n in range(40)])))
            counters = b.engine.snapshot()
    assert vendor.calls == MIN_ALIKE
    assert (counters.failed[0], len(counters.open)) == (MIN_ALIKE - 1, 40 - MIN_ALIKE + 1)
    assert "unexpected field" in counters.stops["a"] and "--retry-failed" in counters.stops["a"]


async def test_rows_refused_among_good_ones_stop_nothing(tmp_path: Path) -> None:
    async with scripted(lambda n: (200, ANSWER) if n % 8 == 7 else (400, refusal("no"))) as vendor:
        async with engine_at(vendor.url, tmp_path, "a", limits=ONE_AT_A_TIME) as b:
            async with b.engine:
                await b.engine.complete(stream(jobs([chat("a", f"question {n}") for n in range(40)])))
            counters = b.engine.snapshot()
    assert (counters.finished[0], counters.failed[0], counters.stops) == (40, 35, {})


async def test_texts_that_are_too_long_stop_nothing(tmp_path: Path) -> None:
    async with scripted(lambda n: (413, refusal("request too large"))) as vendor:
        async with engine_at(vendor.url, tmp_path, "a", limits=ONE_AT_A_TIME) as b:
            async with b.engine:
                await b.engine.complete(stream(jobs([chat("a", f"question {n}") for n in range(20)])))
            counters = b.engine.snapshot()
            stored = b.stored("a")
    assert (counters.failed[0], counters.stops) == (20, {})
    assert {outcome.kind for outcome in stored.values()} == {FailureKind.TOO_LONG}


async def test_answers_that_cannot_be_read_stop_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_waits(monkeypatch)
    async with scripted(lambda n: (200, {"answer": "yes"})) as vendor:
        async with engine_at(vendor.url, tmp_path, "a", limits=ONE_AT_A_TIME) as b:
            async with b.engine:
                await b.engine.complete(stream(jobs([chat("a", f"question {n}") for n in range(600)])))
            counters = b.engine.snapshot()
    assert vendor.calls == MIN_ALIKE
    assert (counters.finished[0], len(counters.open)) == (0, 600) and "not as documented" in counters.stops["a"]


async def test_impossible_bills_stop_the_model_and_are_booked(tmp_path: Path) -> None:
    impossible = ANSWER | {"usage": {"prompt_tokens": -3, "completion_tokens": 1, "total_tokens": 4}}
    async with scripted(lambda n: (200, impossible)) as vendor:
        async with engine_at(vendor.url, tmp_path, "a", limits=ONE_AT_A_TIME) as b:
            async with b.engine:
                await b.engine.complete(stream(jobs([chat("a", f"question {n}") for n in range(40)])))
            counters = b.engine.snapshot()
            stored = b.stored("a")
    assert vendor.calls == counters.failed[0] == len(stored) == MIN_ALIKE
    assert sum(outcome.cost_nanousd for outcome in stored.values()) == counters.spent_nanousd > 0


async def test_an_overloaded_model_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many more refusals than a server error is tried again, then an answer; the pauses are the limiter's."""
    monkeypatch.setattr("hab_ray.engine.limits.limiter.FIRST_PROBE_S", 0.001)
    monkeypatch.setattr("hab_ray.engine.limits.limiter.SLOWEST_PROBE_S", 0.01)
    async with scripted(lambda n: (529, refusal("overloaded")) if n < 30 else (200, ANSWER)) as vendor:
        async with engine_at(vendor.url, tmp_path, "a") as b:
            async with b.engine:
                await b.engine.complete(stream(jobs([chat("a", f"question {n}") for n in range(3)])))
            counters = b.engine.snapshot()
    assert counters.finished[0] == 3 and not counters.open and vendor.calls == 33


async def test_an_overload_beyond_patience_stops_the_model_in_the_vendors_words(tmp_path: Path) -> None:
    limits = Limits(concurrent=2, patience_s=1, timeout_s=10)
    async with scripted(lambda n: (503, refusal("no capacity today"))) as vendor:
        async with engine_at(vendor.url, tmp_path, "a", limits=limits) as b:
            async with b.engine:
                await b.engine.complete(stream(jobs([chat("a", f"question {n}") for n in range(50)])))
            counters = b.engine.snapshot()
    assert len(counters.open) == 50 and "no capacity today" in counters.stops["a"]
    assert vendor.calls < 20


def test_what_is_alike() -> None:
    alike = AlikeRefusals()
    words = ("no 12", "no 345", "never", "no 1")
    assert [alike.add("a", str(row), said) for row, said in enumerate(words)] == [1, 2, 1, 1]
    assert [alike.add("b", "0", "no"), alike.add("a", "4", "no 2")] == [1, 2]
    alike.answered("a")
    assert [alike.add("a", "5", "no 3"), alike.add("b", "1", "no")] == [1, 2]


def test_a_row_that_is_tried_again_counts_once() -> None:
    """Two rows with six malformed replies each, at the end of a run, are no reason to stop a model."""
    alike = AlikeRefusals()
    assert {alike.add("a", f"row-{n % 2}", "not as documented") for n in range(12)} == {1, 2}
