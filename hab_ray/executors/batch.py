"""Completes calls through vendors' batch APIs. Needs no Ray."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime

from hab_ray.catalog.models import BatchPolicy
from hab_ray.catalog.prices import Mode
from hab_ray.engine.batch.components import EngineContext, LeaseContext
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.engine import BatchEngine
from hab_ray.engine.batch.waves import Cell
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.ledger import Ledger, Phase
from hab_ray.executors.batch_engines import BatchEngines
from hab_ray.executors.pending import population, sampled
from hab_ray.executors.protocol import (
    Channel,
    ChannelEnded,
    CountersRead,
    Dispatch,
    Event,
    ExecutorDied,
    Spool,
    SpoolsRead,
)
from hab_ray.executors.settling import WorkerContext
from hab_ray.providers import connect, connect_batch
from hab_ray.providers.access import endpoint_of
from hab_ray.providers.base import Endpoint
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.watches import Watch
from hab_ray.storage.replies.store import StoreWriter


@dataclass(frozen=True)
class BatchSetup:
    """What a run gives its batches. `epochs` are the run's own, the present one included; `watch` is their lease's.

    `url` finds an endpoint; `may_send` raises Interrupted once the user stops the run. One that
    `is_detached` leaves once its batches are made. With a `risk` calls lie in a random order, and what the first ones
    cost bounds what is set aside for others, which with this probability cost more; None: what they can cost at most.
    """

    site: WorkerContext
    watch: Watch
    epochs: frozenset[int]
    deadline: datetime | None
    url: Callable[[str], str]
    budget: BudgetService
    may_send: Callable[[], None]
    is_detached: bool
    risk: float | None = None


class BatchExecutor:
    """All batches of a run. An engine starts at the first need, or where the ledger has an open batch."""

    def __init__(self, setup: BatchSetup, wake: Callable[[], None]) -> None:
        self._setup, self._wake = setup, wake
        self._opened: BatchEngines | None = None
        self._counters: dict[str, BatchCounters] = {}
        self._submitting: dict[int, Future[None]] = {}
        self._cells: Counter[tuple[str, str]] = Counter()
        self._ending: Future[None] | None = None
        self._has_ended = False

    def take_up(self) -> None:
        """Wait for what earlier processes left open at the vendors."""
        folder = open_folder(self._setup.site.store)
        for provider in {m.entry.provider for m in self._setup.site.work.models.values()}:
            if any(batch.phase is not Phase.DONE for batch in Ledger(folder, provider).read()):
                self._open(provider)

    def keep_closed(self) -> None:
        """Have the next process read the ledger's finished batches from one file."""
        folder = open_folder(self._setup.site.store)
        for provider in {m.entry.provider for m in self._setup.site.work.models.values()}:
            Ledger(folder, provider).keep_closed()

    def start(self, dispatch: Dispatch) -> Channel:
        engines = self._open(dispatch.provider)
        pending, cell = self._setup.site.pending, self._cell(dispatch)
        jobs = pending.jobs(dispatch.spools) if cell is None else sampled(pending, dispatch.spools)
        submitting = engines.complete(dispatch.provider, dispatch.model, jobs, cell)
        submitting.add_done_callback(lambda _: self._wake())
        self._submitting[dispatch.order] = submitting
        return _channel(dispatch.provider)

    def _cell(self, dispatch: Dispatch) -> Cell | None:
        """The rows of a dispatch as a sample.

        The risk is split evenly over stages and models, and over the dispatches of each, of which there may be any
        number: the n-th has 1/n(n+1) of it.
        """
        if self._setup.risk is None:
            return None
        work, own = self._setup.site.work, (dispatch.stage, dispatch.model)
        self._cells[own] += 1
        kinds = {(shard.stage, work.model(shard).name) for shard in work.shards() if shard.spec.makes_calls}
        found = population(self._setup.site.pending, dispatch.spools)
        return Cell(found.keys, found.cap, found.line_bytes, nth_part(self._setup.risk / len(kinds), self._cells[own]))

    def holds(self, spool: Spool) -> bool:
        engines = self._opened
        if engines is None or spool.provider not in engines.providers:
            return False
        return engines.holds(spool.provider, self._setup.site.pending.keys(spool))

    @property
    def is_parked(self) -> bool:
        """Streams that wait for a vendor's queue or for money are at rest too.

        What has ended at a vendor is collected first: a run that is always started with `--detach` must end some day.
        """
        counters = self._counters.values()
        blocked = sum(c.blocked_streams for c in counters)
        return len(self._submitting) == blocked and not any(c.doubts or c.ending for c in counters)

    def poll(self) -> Sequence[Event]:
        if self._opened is None or self._has_ended:
            return ()
        return list(self._events(self._opened))

    def _events(self, engines: BatchEngines) -> Iterator[Event]:
        ending = self._ending
        has_ended = ending is not None and ending.done()
        submitted = {order: future for order, future in self._submitting.items() if future.done()}
        try:
            self._counters = dict(engines.last_counters() if ending else engines.counters())
            for provider, counters in self._counters.items():
                yield CountersRead(_channel(provider), counters)
            for order, future in submitted.items():
                del self._submitting[order]
                future.result()
                yield SpoolsRead(order)
        except Exception as error:  # whatever ended an engine ends the run
            if not ending:
                yield ExecutorDied(error)
        if has_ended:
            self._has_ended = True
            yield from (ChannelEnded(_channel(provider)) for provider in engines.providers)

    def stop(self, drain_s: float) -> None:
        """What is at the vendors stays there."""
        if self._opened:
            self._opened.stop(drain_s)

    def end(self) -> Collection[Channel]:
        if self._opened is None:
            return ()
        self._ending = self._opened.end()
        return [_channel(provider) for provider in self._opened.providers]

    def close(self) -> None:
        """A thread that has not ended by now is left to end with the process."""
        if self._opened and self._ending and self._ending.done():
            self._opened.close()

    def _open(self, provider: str) -> BatchEngines:
        self._opened = self._opened or BatchEngines()
        if provider not in self._opened.providers:
            entry = self._setup.site.work.catalog.providers[provider]
            endpoint = endpoint_of(provider, entry, self._setup.url(provider))
            self._opened.open(provider, lambda: self._engine(endpoint, entry.batches))
        return self._opened

    def _engine(self, endpoint: Endpoint, policy: BatchPolicy) -> BatchEngine:
        setup, work, provider = self._setup, self._setup.site.work, endpoint.name
        folder, epoch = open_folder(setup.site.store), setup.site.pending.epoch

        def guard() -> None:
            setup.may_send()
            setup.watch.check()

        return BatchEngine(
            provider=connect(endpoint),
            api=connect_batch(endpoint),
            models=work.models_of(provider),
            ledger=Ledger(folder, provider),
            store=setup.site.open_store(),
            writer=StoreWriter(folder, epoch, f"{provider}-batches", Mode.BATCH),
            policy=policy,
            context=EngineContext(
                clock=time.monotonic,
                lease=LeaseContext(lambda: datetime.now(UTC), guard, epoch),
                budget=setup.budget,
                token=lambda: f"hab-{secrets.token_hex(12)}",
                run=work.run_name,
                epochs=setup.epochs,
                deadline=setup.deadline,
                keeps_refusals=setup.is_detached,
            ),
        )


def nth_part(risk: float, n: int) -> float:
    """The n-th part of a risk that is split over any number of things, n from 1."""
    return risk / (n * (n + 1))


def _channel(provider: str) -> Channel:
    return Channel(provider, Mode.BATCH)
