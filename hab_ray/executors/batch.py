"""The executor that completes calls through vendors' batch APIs. Needs no Ray."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from hab_ray.catalog.models import BatchPolicy, load_catalog
from hab_ray.catalog.prices import Mode
from hab_ray.engine.batch.cells import Cell
from hab_ray.engine.batch.components import EngineContext
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.engine import BatchEngine
from hab_ray.engine.jobs import Job
from hab_ray.engine.ledger import Ledger, Phase
from hab_ray.engine.memory import map_large_blocks
from hab_ray.executors.cells import Cells, KeptPopulation, split_by_population
from hab_ray.executors.online import RunSetup
from hab_ray.executors.pending import sampled, sampled_keys
from hab_ray.executors.protocol import (
    Channel,
    ChannelEnded,
    CountersRead,
    Dispatch,
    DispatchEnded,
    Event,
    ExecutorDied,
    Spool,
)
from hab_ray.providers import connect, connect_batch
from hab_ray.providers.access import endpoint_of
from hab_ray.providers.base import Endpoint
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import StoreWriter
from hab_ray.storage.secret import fence_secret

T = TypeVar("T")


@dataclass(frozen=True)
class BatchSetup:
    """Settings of a run's batches.

    - `epochs` are all epochs of this run, including the current one.
    - A run that `is_detached` ends once its batches are submitted.
    - With a `risk`, calls are in random order, and the cost of the first ones gives an upper bound for reserving money
      for the others, which they exceed with at most this probability. With None, calls reserve the most that they can
      cost. Populations that begin in this process may use this `part` of the risk.
    """

    run: RunSetup
    epochs: frozenset[int]
    deadline: datetime | None
    is_detached: bool
    risk: float | None = None
    part: float = 1.0


class BatchExecutor:
    """All batches of a run. A provider's engine starts at its first dispatch, or if its ledger has an open batch."""

    def __init__(self, setup: BatchSetup, wake: Callable[[], None]) -> None:
        self._setup, self._site, self._wake = setup, setup.run.site, wake
        self._opened: BatchEngines | None = None
        self._counters: dict[str, BatchCounters] = {}
        self._submitting: dict[int, list[Future[None]]] = {}
        self._cells: Counter[tuple[str, str]] = Counter()
        self._ending: Future[None] | None = None
        self._has_ended = False

    def resume(self) -> None:
        """Resume the batches that earlier processes left at the vendors."""
        for ledger in self._ledgers():
            if any(batch.phase is not Phase.DONE for batch in ledger.read()):
                self._open(ledger.provider)

    def keep_closed(self) -> None:
        """Gather finished batches in one file per ledger, for the next process to read."""
        for ledger in self._ledgers():
            ledger.keep_closed()

    def _ledgers(self) -> list[Ledger]:
        folder = open_folder(self._site.store)
        return [Ledger(folder, name) for name in {m.entry.provider for m in self._site.work.models.values()}]

    def start(self, dispatch: Dispatch) -> Channel:
        engines = self._open(dispatch.provider)
        streams = [
            engines.complete(dispatch.provider, dispatch.model, jobs, cell) for jobs, cell in self._streams(dispatch)
        ]
        for stream in streams:
            stream.add_done_callback(lambda _: self._wake())
        self._submitting[dispatch.order] = streams
        return _channel(dispatch.provider)

    def _streams(self, dispatch: Dispatch) -> Iterator[tuple[Iterator[Job], Cell | None]]:
        """Yield the jobs of a dispatch and, if they are sampled, the cell of each population.

        The risk is split evenly over stages and models. Within one of them the n-th population gets 1/n(n+1) of it,
        which allows for any number of populations.
        """
        setup, spools = self._setup, dispatch.spools
        work, pending = self._site.work, self._site.pending
        if setup.risk is None:
            yield pending.jobs(spools), None
            return
        asked = {(shard.stage, work.model(shard).name) for shard in work.shards() if shard.spec.makes_calls}
        cells = Cells(open_folder(pending.run_path), dispatch.stage, work.models[dispatch.model])
        populations = split_by_population(sampled_keys(pending, spools), cells.populations())
        for number, (keys, before) in enumerate(populations):
            self._cells[dispatch.stage, dispatch.model] += 1
            share = nth_part(setup.part / len(asked), self._cells[dispatch.stage, dispatch.model])
            new = KeptPopulation.new(pending.epoch, cells.price, spools, share)
            name = f"{pending.epoch:06d}-{dispatch.order:06d}-{number:03d}"
            yield (
                _with_keys(frozenset(keys), sampled(pending, spools)),
                cells.cell(name, keys, new, before, setup.risk),
            )

    def held(self, spool: Spool) -> set[str]:
        """Return the keys of the calls that are in a batch, so that sending them elsewhere would pay twice.

        A batch that was collected counts too: it may have answered a call after the spool was written.
        """
        engines = self._opened
        if engines is None or spool.provider not in engines.providers:
            return set()
        return engines.held(spool.provider, self._site.pending.keys(spool))

    @property
    def is_parked(self) -> bool:
        """Whether all streams wait for batches, a vendor's queue or money.

        Batches that have ended are collected first, or a run that is always started with `--detach` would never end.
        """
        counters = self._counters.values()
        blocked = sum(c.blocked_streams for c in counters)
        streams = sum(max(1, sum(not one.done() for one in each)) for each in self._submitting.values())
        return streams == blocked and not any(c.doubts or c.ending for c in counters)

    def poll(self) -> Sequence[Event]:
        if self._opened is None or self._has_ended:
            return ()
        return list(self._events(self._opened))

    def _events(self, engines: BatchEngines) -> Iterator[Event]:
        ending = self._ending
        has_ended = ending is not None and ending.done()
        submitted = [order for order, streams in self._submitting.items() if all(one.done() for one in streams)]
        try:
            if engines.broken and not ending:
                raise engines.broken
            self._counters = engines.counters()
            for provider, counters in self._counters.items():
                yield CountersRead(_channel(provider), counters)
            for order in submitted:
                for stream in self._submitting.pop(order):
                    stream.result()
                yield DispatchEnded(order)
        except Exception as error:  # any error of an engine ends the run
            if not ending:
                yield ExecutorDied(error)
        if has_ended:
            self._has_ended = True
            yield from (ChannelEnded(_channel(provider)) for provider in engines.providers)

    def stop(self, drain_s: float) -> None:
        """Send no further requests; submitted batches stay at the vendors."""
        if self._opened:
            self._opened.stop(drain_s)

    def end(self) -> Collection[Channel]:
        if self._opened is None:
            return ()
        self._ending = self._opened.end()
        return [_channel(provider) for provider in self._opened.providers]

    def close(self) -> None:
        """Close the engines' thread if it has ended; otherwise it ends with the process."""
        if self._opened and self._ending and self._ending.done():
            self._opened.close()

    def _open(self, provider: str) -> BatchEngines:
        self._opened = self._opened or BatchEngines()
        if provider not in self._opened.providers:
            entry = self._site.work.catalog.providers[provider]
            endpoint = endpoint_of(provider, entry, self._setup.run.url(provider))
            self._opened.open(provider, lambda: self._engine(endpoint, entry.batches))
        return self._opened

    def _engine(self, endpoint: Endpoint, policy: BatchPolicy) -> BatchEngine:
        setup, site, provider = self._setup, self._site, endpoint.name
        folder, epoch = open_folder(site.store), site.pending.epoch

        return BatchEngine(
            provider=connect(endpoint),
            api=connect_batch(endpoint),
            models=site.work.models_of(provider),
            ledger=Ledger(folder, provider),
            writer=StoreWriter(folder, epoch, f"{provider}-batches", Mode.BATCH),
            policy=policy,
            context=EngineContext(
                epoch=epoch,
                guard=setup.run.guard(),
                budget=setup.run.budget,
                run=site.work.run_name,
                epochs=setup.epochs,
                fingerprint=endpoint.fingerprint(fence_secret(folder)),
                deadline=setup.deadline,
                keeps_refusals=setup.is_detached,
                is_vendors=load_catalog().is_vendors(endpoint.url),
            ),
        )


def _with_keys(keys: frozenset[str], jobs: Iterator[Job]) -> Iterator[Job]:
    return (job for job in jobs if job.call.key in keys)


def nth_part(risk: float, n: int) -> float:
    """Return the n-th part (n from 1) of a risk that is split over an unknown number of parts."""
    return risk / (n * (n + 1))


def _channel(provider: str) -> Channel:
    return Channel(provider, Mode.BATCH)


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
