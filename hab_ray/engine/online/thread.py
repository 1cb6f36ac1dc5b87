"""Runs an online engine in its own thread, on its own event loop.

The event loop of a Ray actor or a driver has other work to do; on its own loop, an engine can bunch network events.
All methods may be called from any thread. They return `concurrent.futures` futures: wait for them with `result()`, or
on another event loop with `asyncio.wrap_future()`.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Any, Generic, TypeVar

from hab_ray.engine.jobs import Job
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.reply_writer import MAX_QUEUED
from hab_ray.errors import EngineBroke

MANY_IN_FLIGHT = 32
BUNCH_S = 0.004
T = TypeVar("T")
R = TypeVar("R")
OpenEngine = Callable[[], AbstractAsyncContextManager[OnlineEngine]]


class BunchingSelector(selectors.DefaultSelector):
    """A selector that leaves at least `bunch_s` seconds between two wake-ups while `is_busy()`."""

    def __init__(self, is_busy: Callable[[], bool], bunch_s: float) -> None:
        super().__init__()
        self._is_busy, self._bunch_s = is_busy, bunch_s
        self._woken_at = -inf

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events. A timeout of 0 means that callbacks are ready to run, so return at once."""
        if timeout == 0 or not self._is_busy():
            return super().select(timeout)
        pause = min(self._woken_at + self._bunch_s - time.monotonic(), inf if timeout is None else timeout)
        if pause > 0:
            time.sleep(pause)
            timeout = None if timeout is None else timeout - pause
        events = super().select(timeout)
        self._woken_at = time.monotonic()
        return events


class EngineThread(Generic[R]):
    """Runs the engine of `open_engine`, a context manager that is entered and exited on the engine's loop.

    `opened` completes once the engine is open, or fails with the error that opening it raised; earlier requests wait
    until then. `report` runs on the engine's loop and summarises what the engine has done. With `MANY_IN_FLIGHT` or
    more calls in flight, network events are handled in bunches every `BUNCH_S`.
    """

    def __init__(self, name: str, open_engine: OpenEngine, report: Callable[[OnlineEngine], R]) -> None:
        self._open_engine, self._report = open_engine, report
        self._engine: OnlineEngine | None = None
        self._loop = asyncio.SelectorEventLoop(BunchingSelector(self._is_busy, BUNCH_S))
        self._opened: asyncio.Future[OnlineEngine] = self._loop.create_future()
        self._closing = asyncio.Event()
        self._submitting, self._accepts = threading.Lock(), True
        self._ended: Future[R] = Future()
        self.opened: Future[None] = self._submit(lambda _: asyncio.sleep(0))
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def complete(self, jobs: AsyncIterator[Job], most_queued: float = MAX_QUEUED) -> Future[None]:
        """Complete a stream of jobs; see OnlineEngine.complete. `jobs` is read on the engine's loop."""
        return self._submit(lambda engine: engine.complete(jobs, most_queued))

    def report(self) -> Future[R]:
        async def reported(engine: OnlineEngine) -> R:
            return self._report(engine)

        return self._submit(reported)

    def stop(self, drain_s: float) -> Future[None]:
        return self._submit(lambda engine: engine.stop(drain_s))

    def close(self) -> Future[R]:
        """Wait for calls in flight, write their outcomes and end the thread; the future holds the last report.

        Jobs not started yet are abandoned: the futures of their `complete` are cancelled. May be called again. The
        future fails if opening or closing the engine failed.
        """
        with self._submitting:
            if self._accepts:
                self._loop.call_soon_threadsafe(self._closing.set)
        return self._ended

    def _is_busy(self) -> bool:
        return self._engine is not None and self._engine.in_flight >= MANY_IN_FLIGHT

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                last = runner.run(self._serve())
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(last)

    async def _serve(self) -> R:
        try:
            async with self._open_engine() as engine:
                self._engine = engine
                self._opened.set_result(engine)
                await self._closing.wait()
            return self._report(engine)
        except BaseException as error:
            if not self._opened.done():
                self._opened.set_exception(error)
            raise
        finally:
            with self._submitting:
                self._accepts = False
            await asyncio.sleep(0)  # lets earlier submissions become tasks, which the runner cancels

    async def _open(self) -> OnlineEngine:
        """Wait until the engine is open; raise the error if opening it failed."""
        try:
            return await asyncio.shield(self._opened)
        except asyncio.CancelledError:  # a thread whose engine failed to open cancels its tasks as it ends
            failure = self._opened.exception() if self._opened.done() else None
            if failure:
                raise failure from None
            raise

    def _submit(self, work: Callable[[OnlineEngine], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run `work` on the engine's loop once the engine is open.

        The future fails with EngineBroke once the thread has ended, or with the error that opening the engine raised.
        """

        async def run() -> T:
            return await work(await self._open())

        with self._submitting:
            if self._accepts:
                return asyncio.run_coroutine_threadsafe(run(), self._loop)
        failure = self._opened.exception() if self._opened.done() else None
        refused: Future[T] = Future()
        refused.set_exception(failure or EngineBroke("the online engine has ended; run the same command again"))
        return refused
