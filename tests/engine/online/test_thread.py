"""An engine in its own thread, used from the test's thread."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hab_ray.catalog.models import Limits
from hab_ray.engine.jobs import Counters
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.thread import MANY_IN_FLIGHT, EngineThread
from hab_ray.errors import ConfigError, EngineBroke, Interrupted
from tests.conftest import Vendors
from tests.engine.bench import chat, engine_at, jobs, stored, stream

LIMITS = Limits(concurrent=200, patience_s=5, timeout_s=10)
Thread = EngineThread[Counters]


def questions(count: int) -> AsyncIterator[Any]:
    return stream(jobs(chat("a", f"question {n}") for n in range(count)))


def thread_before(url: str, folder: Path, limits: Limits = LIMITS) -> Thread:
    """A thread before a simulator."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[OnlineEngine]:
        async with engine_at(url, folder, "a", limits=limits) as bench, bench.engine:
            yield bench.engine

    return EngineThread("a", opened, OnlineEngine.snapshot)


def test_completes_calls(tmp_path: Path, vendor: Vendors) -> None:
    """Several streams from this thread, counted while they run; every outcome is stored once the engine is closed."""
    calls = [chat("a", f"question {n}") for n in range(200)]
    thread = thread_before(vendor().url, tmp_path)
    thread.opened.result(30)
    twice = [*calls[:120], *calls[:20]]
    streams = [thread.complete(stream(jobs(twice, 0))), thread.complete(stream(jobs(calls[80:], 1)))]
    for one in streams:
        one.result(30)
    finished = thread.report().result(30).finished
    assert (finished[0], finished[1]) == (140, 120)
    last = thread.close().result(30)
    assert last.calls == 200 and set(stored(tmp_path, "a")) == {call.key for call in calls}
    with pytest.raises(EngineBroke):
        thread.report().result(1)
    thread.stop(0.0)  # the thread that reads signals survives it
    assert thread.close().result(1) == last


def test_stop_and_close(tmp_path: Path, vendor: Vendors) -> None:
    """A stop ends waiting streams with Interrupted; calls in flight are answered and written."""
    sim = vendor(latency={"kind": "fixed", "value_s": 0.5})
    thread = thread_before(sim.url, tmp_path)
    work = thread.complete(questions(500))
    while thread.report().result(30).in_flight["a"] < 10:
        time.sleep(0.01)
    thread.stop(drain_s=20).result(30)
    with pytest.raises(Interrupted):
        work.result(30)
    last = thread.close().result(30)
    assert last.calls == sim.meter()["billed"]
    assert 10 <= last.calls == last.finished[0] == len(stored(tmp_path, "a")) < 500 and not last.cut


def test_rate_while_bunching(tmp_path: Path, vendor: Vendors) -> None:
    """With many calls in flight the limit is reached and never exceeded."""
    limit = {"models": {"*": {"requests_per_minute": 3000}}}
    limits = Limits(concurrent=500, requests_per_minute=3000)
    latency = {"kind": "fixed", "value_s": 1.5}
    thread = thread_before(vendor(accounts={"x/sim": limit}, latency=latency).url, tmp_path, limits)
    thread.opened.result(30)
    started = time.monotonic()
    work = thread.complete(questions(200))
    most = 0
    while not work.done():
        most = max(most, thread.report().result(30).in_flight.total())
        time.sleep(0.05)
    took = time.monotonic() - started
    last = thread.close().result(30)
    assert most > MANY_IN_FLIGHT
    assert (last.finished[0], last.calls, last.retries) == (200, 200, 0) and 5.0 < took < 30.0


def test_close_abandons_waiting_jobs(tmp_path: Path, vendor: Vendors) -> None:
    """An unfinished stream is cancelled when the thread ends, and does not delay the end."""
    never = threading.Event()

    async def endless() -> AsyncIterator[Any]:
        yield jobs([chat("a", "question")])[0]
        await asyncio.sleep(3600)
        never.set()

    thread = thread_before(vendor().url, tmp_path)
    work = thread.complete(endless())
    while not thread.report().result(30).finished[0]:
        time.sleep(0.01)
    thread.close().result(30)
    with pytest.raises(CancelledError):
        work.result(30)
    assert not never.is_set()


def test_engine_that_cannot_be_opened() -> None:
    """All waiting futures fail with the error that opening the engine raised."""

    @asynccontextmanager
    async def refused() -> AsyncIterator[OnlineEngine]:
        await asyncio.sleep(0.05)
        raise ConfigError("no price is known for a")
        yield

    thread = EngineThread("a", refused, OnlineEngine.snapshot)
    for future in (thread.opened, thread.complete(questions(1)), thread.close()):
        with pytest.raises(ConfigError, match="no price"):
            future.result(30)
    with pytest.raises(ConfigError, match="no price"):
        thread.report().result(1)
