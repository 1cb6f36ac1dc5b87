"""Runs one batch engine per provider account in a background thread of the driver, which alone submits batches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from hab_ray.engine.batch.cells import Cell
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.engine import BatchEngine
from hab_ray.engine.jobs import Job
from hab_ray.engine.memory import map_large_blocks

T = TypeVar("T")


class BatchEngines:
    """Batch engines by provider, on an event loop in a background thread. Call its methods from the driver's thread."""

    def __init__(self) -> None:
        map_large_blocks()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="batches", daemon=True)
        self._thread.start()
        self._engines: dict[str, BatchEngine] = {}
        self._drain_s: float | None = None

    def _run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def open(self, provider: str, make: Callable[[], BatchEngine]) -> None:
        """Open an engine for a provider, which resumes the batches that earlier processes left open.

        Raises:
            ConfigError, DamagedFile, LeaseLost: see the engine.
        """

        async def opened() -> BatchEngine:
            engine = await make().__aenter__()
            if self._drain_s is not None:
                engine.stop(self._drain_s)
            return engine

        self._engines[provider] = self._run(opened()).result()

    def complete(self, provider: str, model: str, jobs: Iterator[Job], cell: Cell | None) -> Future[None]:
        return self._run(self._engines[provider].complete(model, jobs, cell))

    @property
    def providers(self) -> Collection[str]:
        """The providers that have an engine."""
        return self._engines.keys()

    def held(self, provider: str, keys: Sequence[str]) -> set[str]:
        return self._engines[provider].held(keys)

    @property
    def broken(self) -> Exception | None:
        """The error that ended an engine, if any did."""
        return next((engine.broken for engine in self._engines.values() if engine.broken), None)

    def counters(self) -> dict[str, BatchCounters]:
        """Return the counters of each engine, including those that an error has ended."""

        async def snapshots() -> dict[str, BatchCounters]:
            return {provider: engine.snapshot() for provider, engine in self._engines.items()}

        return self._run(snapshots()).result()

    def stop(self, drain_s: float) -> None:
        """Send no further requests; a request that submits a batch has `drain_s` seconds to end. For any thread."""

        def stop_all() -> None:
            self._drain_s = drain_s
            for engine in self._engines.values():
                engine.stop(drain_s)

        self._loop.call_soon_threadsafe(stop_all)

    def end(self) -> Future[None]:
        """Begin to close all engines; open batches stay at the vendors and in the ledger."""

        async def ended() -> None:
            await asyncio.gather(*(engine.__aexit__() for engine in self._engines.values()), return_exceptions=True)

        return self._run(ended())

    def close(self) -> None:
        """Stop the thread. Wait for the future of `end` first."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
