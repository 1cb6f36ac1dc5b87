"""An engine in its own thread, used from the test's thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hab_ray.catalog.models import Limits
from hab_ray.engine.jobs import Counters
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.thread import MANY_IN_FLIGHT, EngineThread
from hab_ray.errors import ConfigError, EngineBroke, Interrupted
from hab_simulator import Profile, SimulatorClient, SimulatorProcess
from tests.engine.bench import chat, engine_at, jobs, stored, stream

LIMITS = Limits(concurrent=200, patience_s=5, timeout_s=10)
Thread = EngineThread[Counters]


def questions(count: int) -> AsyncIterator[Any]:
    return stream(jobs(chat("a", f"question {n}") for n in range(count)))


@contextmanager
def thread_before(folder: Path, limits: Limits = LIMITS, **profile: Any) -> Iterator[tuple[Thread, str]]:
    """A thread before a simulator of its own with this profile, and the simulator's URL."""
    with SimulatorProcess.start(Profile.model_validate(profile)) as simulator:

        @asynccontextmanager
        async def opened() -> AsyncIterator[OnlineEngine]:
            async with engine_at(simulator.url, folder, "a", limits=limits) as bench, bench.engine:
                yield bench.engine

        yield EngineThread("a", opened, OnlineEngine.snapshot), simulator.url


def test_completes_calls(tmp_path: Path) -> None:
    """Several streams from this thread, counted while they run; every outcome is stored once the engine is closed."""
    calls = [chat("a", f"question {n}") for n in range(200)]
    with thread_before(tmp_path) as (thread, _):
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


async def test_on_another_loop(tmp_path: Path) -> None:
    """An event loop awaits the thread's futures and is not blocked by them."""
    with thread_before(tmp_path, latency={"kind": "fixed", "value_s": 0.3}) as (thread, _):
        work = asyncio.wrap_future(thread.complete(questions(1)))
        while not (await asyncio.wrap_future(thread.report())).calls:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(work, 30)
        assert (await asyncio.wrap_future(thread.close())).finished[0] == 1


def test_stop_and_close(tmp_path: Path) -> None:
    """A stop ends waiting streams with Interrupted; calls in flight are answered and written."""
    with thread_before(tmp_path, latency={"kind": "fixed", "value_s": 0.5}) as (thread, url):
        work = thread.complete(questions(500))
        while thread.report().result(30).in_flight["a"] < 10:
            time.sleep(0.01)
        thread.stop(drain_s=20).result(30)
        with pytest.raises(Interrupted):
            work.result(30)
        last = thread.close().result(30)
        assert last.calls == SimulatorClient(url).meter().billed
    assert 10 <= last.calls == last.finished[0] == len(stored(tmp_path, "a")) < 500 and not last.cut


def test_rate_while_bunching(tmp_path: Path) -> None:
    """With many calls in flight the limit is reached and never exceeded."""
    limit = {"models": {"*": {"requests_per_minute": 3000}}}
    limits = Limits(concurrent=500, requests_per_minute=3000)
    latency = {"kind": "fixed", "value_s": 1.5}
    with thread_before(tmp_path, limits, accounts={"x/sim": limit}, latency=latency) as (thread, _):
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


def test_close_abandons_waiting_jobs(tmp_path: Path) -> None:
    """An unfinished stream is cancelled when the thread ends, and does not delay the end."""
    never = threading.Event()

    async def endless() -> AsyncIterator[Any]:
        yield jobs([chat("a", "question")])[0]
        await asyncio.sleep(3600)
        never.set()

    with thread_before(tmp_path) as (thread, _):
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
