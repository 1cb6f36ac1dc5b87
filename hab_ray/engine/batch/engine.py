"""The batch engine of one provider account: owns the tasks that submit and poll batches."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from typing import Any, Self

from hab_ray.catalog.models import BatchPolicy, ModelEntry
from hab_ray.catalog.prices import Mode, rates
from hab_ray.engine.batch.cells import Cell
from hab_ray.engine.batch.collect import Collector
from hab_ray.engine.batch.components import Components, EngineContext
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.create import Creator
from hab_ray.engine.batch.enqueued import EnqueuedTokenLimits
from hab_ray.engine.batch.packing import PackedRow, RowPacker
from hab_ray.engine.batch.poll import Poller
from hab_ray.engine.batch.recover import Recovery
from hab_ray.engine.batch.rows import RowsInFlight
from hab_ray.engine.batch.send import Sender
from hab_ray.engine.batch.submit import Submitter
from hab_ray.engine.budget.client import BatchBudgetClient
from hab_ray.engine.jobs import Job
from hab_ray.engine.ledger import Ledger
from hab_ray.errors import Interrupted
from hab_ray.fences import FenceCodes
from hab_ray.providers.base import Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.resources import exits_refused
from hab_ray.storage.replies.store import StoreWriter
from hab_ray.storage.secret import fence_secret

CHUNK = 256


class BatchEngine:
    """Completes the calls of one provider account. Used as a context manager, on one event loop.

    `broken` is the error of the task that failed first and so ended all others.
    """

    def __init__(
        self,
        provider: Provider,
        api: BatchApi,
        models: Mapping[str, ModelEntry],
        ledger: Ledger,
        writer: StoreWriter,
        policy: BatchPolicy,
        context: EngineContext,
    ) -> None:
        self._provider, self._api, self._models, self._ledger = provider, api, models, ledger
        self._rates, self._today = {name: rates(entry, Mode.BATCH) for name, entry in models.items()}, context.today
        self._codes = FenceCodes(fence_secret(ledger.folder))
        self._counters, self._budget = BatchCounters(), BatchBudgetClient(context.budget, clock=context.clock)
        self._rows = RowsInFlight(self._counters)
        limits = EnqueuedTokenLimits(models, policy.longest_poll_s, context.clock)
        components = Components(api, models, ledger, policy, context, self._counters, self._rows, self._budget, limits)
        collector = Collector(provider, api, writer, context.today, self._counters.traffic)
        self._sender = Sender(components)
        creator = Creator(components, self._sender)
        self._recovery = Recovery(components, creator)
        self._submitter = Submitter(components, creator, collector)
        self._poller = Poller(components, collector, self._rates)
        self._stopping = components.stopping
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self.broken: Exception | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._recovery.resume_all()
        except BaseException:
            await self._close_connections()
            raise
        await self._budget.__aenter__()
        is_running = asyncio.Event()
        self._running = asyncio.create_task(self._run(is_running))
        await is_running.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all tasks. Open batches stay at the vendor and in the ledger."""
        if not self._stopping.is_set():
            self.stop(0.0)
        try:
            await self._running
            await self._budget.__aexit__()
        except Exception as error:
            self._note_late(error)
            raise
        finally:
            await self._close_connections()

    async def _close_connections(self) -> None:
        await self._provider.close()
        await self._api.close()

    async def _run(self, is_running: asyncio.Event) -> None:
        with suppress(ExceptionGroup):
            async with self._group:
                self._start(self._recovery.settle_doubts())
                self._start(self._poller.poll_regularly())
                is_running.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(self._supervised(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _supervised(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            with exits_refused():
                await work
        except Exception as error:
            if self._stopping.is_set():
                if isinstance(error, Interrupted):
                    return
                self._note_late(error)
            self.broken = self.broken or error
            raise

    def _note_late(self, error: Exception) -> None:
        """Note the first error while the run is ending, when no stream may still be waiting for it."""
        if self.broken is None:
            self.broken = error
            self._counters.notes.append(
                f"an error occurred while the batches of {self._ledger.provider} were left: {error}; run the same "
                "command again: it continues from the ledger, and searches for a batch whose creation was not recorded"
            )

    def stop(self, drain_s: float) -> None:
        """Begin no further request; an open create request has `drain_s` seconds to end.

        Results being read are cut off: those already stored are kept, and the next run reads the rest.
        """
        self._stopping.set()
        for task in self._tasks:
            if self._sender.creating is None or task is not self._sender.creating.task:
                task.cancel()
        asyncio.get_running_loop().call_later(drain_s, self._cut_off)

    def _cut_off(self) -> None:
        """Cancel the open create request; its intent stays in the ledger, and the next run searches for the batch."""
        if self._sender.creating and self._sender.creating.task:
            self._sender.creating.task.cancel()

    async def complete(self, model: str, jobs: Iterator[Job], cell: Cell | None = None) -> None:
        """Submit the calls of these jobs, all of one model. Several such streams may run at once.

        Streams fill their batches in turn, and read `jobs` in a thread. Return once each job is in a batch at the
        vendor, answered or left open, or the engine is stopped. The jobs of a `cell` come in random order, and the
        costs of the first ones bound the reservations for the others.

        Raises:
            LeaseLost: another driver has the store.
            ConfigError: the API key belongs to another organisation than the open batches.
            OSError: the store cannot be written.
        """
        if self.broken is None and not self._stopping.is_set():
            stream = self._submitter.submit(model, lambda: self._packed(model, islice(jobs, CHUNK)), cell)
            await asyncio.wait({self._start(stream)})
        if self.broken:
            raise self.broken

    def _packed(self, model: str, jobs: Iterable[Job]) -> list[PackedRow]:
        price = self._rates[model].reserved(self._today().date())
        packer = RowPacker(self._provider, self._api, self._models[model], price, self._codes)
        return [packer.row(job) for job in jobs]

    def held(self, keys: Sequence[str]) -> set[str]:
        """Return those of these keys that are in a batch, open or being packed, or answered by one."""
        return self._rows.held(keys)

    @property
    def has_open_batches(self) -> bool:
        """Whether a batch is, or may be, at the vendor and is not collected yet."""
        return bool(self._rows.batches)

    def snapshot(self) -> BatchCounters:
        """Return the counters so far; each open row and note is returned only once."""
        counters, budget = self._counters, self._budget
        counters.lost_nanousd, counters.spent_nanousd = budget.lost, budget.spent
        counters.reserved_nanousd = budget.reserved + budget.in_batches
        counters.waits_for_nanousd = budget.waiting.smallest
        awaited = (batch for batch in self._rows.batches if batch.is_own or batch.waiting.total())
        counters.ending = 0 if "" in counters.stops else sum(batch.is_ending for batch in awaited)
        snapshot = deepcopy(counters)
        snapshot.batches = tuple(record for batch in self._rows.batches if (record := batch.record))
        snapshot.creating_nanousd = self._sender.creating.nanousd if self._sender.creating else 0
        counters.open.clear()
        counters.notes.clear()
        return snapshot
