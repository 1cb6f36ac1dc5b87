"""The batch engine: the calls of one provider account through its batch API, each completed once.

A row's life:

    offered ── answered already ──> finished         offered ── its key in an open batch ──> waits for that batch
    offered ── packed ── room, money ──> placed (see `placing`) ── ended ──> harvested ──> finished
    packed ── no money left, model or provider stopped ──> open: named with its reason
    packed ── the vendor takes no batches of the model ──> finished: to be offered online
    packed ── batch refused for its rows ──> packed in parts ── refused alone ──> finished: a permanent failure
    offered, packed ── the user stops the run ──> left where they are: the next run offers them again

`finished` counts rows whose batch has brought what it will, answered or not: whoever offered them looks into the
store and offers again what has no answer. Nothing is kept of a row but its key, so that a sweep of any size fits.
`Submitter` brings rows to the vendor, `Collector` files what their batches bring, and `RowsInFlight` knows which row is
where; the engine takes up what earlier processes left open, and ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from itertools import islice
from math import inf
from typing import Self

from hab_ray.catalog import BatchPolicy, ModelEntry
from hab_ray.engine.batch.collect import Harvest, Harvester
from hab_ray.engine.batch.components import EngineContext
from hab_ray.engine.batch.create import Placer
from hab_ray.engine.batch.enqueued import Queues
from hab_ray.engine.batch.in_flight import BatchCounters, BatchSurroundings, Home
from hab_ray.engine.batch.packing import RowPacker
from hab_ray.engine.batch.poll import Collector
from hab_ray.engine.batch.rows import RowsInFlight
from hab_ray.engine.batch.submit import Submitter
from hab_ray.engine.jobs import Job
from hab_ray.engine.ledger import Batch, Intent, Ledger, Phase, body_hashes
from hab_ray.engine.wallet import Wallet
from hab_ray.errors import CallError, Interrupted, RateLimited, TransientError
from hab_ray.fences import FenceCodes
from hab_ray.prices import NANO, Mode, rate
from hab_ray.providers.base import Provider
from hab_ray.providers.batching import BadRows, BatchApi
from hab_ray.storage.keyindex import KeySet
from hab_ray.storage.secret import fence_secret
from hab_ray.storage.store import Store, StoreWriter

CHUNK = 256
CREATE_LOOK_S = 0.05


class BatchEngine:
    """Completes the calls of one provider account. Used as a context; it works on one event loop."""

    def __init__(
        self,
        provider: Provider,
        api: BatchApi,
        models: Mapping[str, ModelEntry],
        ledger: Ledger,
        store: Store,
        writer: StoreWriter,
        policy: BatchPolicy,
        world: BatchSurroundings,
    ) -> None:
        self._provider, self._api, self._models, self._ledger, self._world = provider, api, models, ledger, world
        self._prices = {name: rate(entry, Mode.BATCH) for name, entry in models.items()}
        self._codes = FenceCodes(fence_secret(store.folder))
        self._tally, self._wallet = BatchCounters(), Wallet(world.money)
        self._rows = RowsInFlight(self._tally, self._wallet.give_up_batches)
        self._placer = Placer(api, ledger, policy, world.watch, self._tally.notes.append, self._wallet.commit)
        self._queues = Queues(models, policy.longest_poll_s, world.clock)
        context = EngineContext(
            api=api,
            models=models,
            ledger=ledger,
            policy=policy,
            world=world,
            tally=self._tally,
            rows=self._rows,
            wallet=self._wallet,
            queues=self._queues,
            placer=self._placer,
            harvester=Harvester(provider, api, writer, world.watch.today, self._tally.billing),
        )
        self._placing = asyncio.Lock()
        self._submitter = Submitter(context, self._placing)
        self._collector = Collector(context, store, self._prices)
        self.broken: Exception | None = None
        self._working: list[asyncio.Task[None]] = []
        self._streams: set[asyncio.Task[None]] = set()
        self._cut_at = inf

    async def __aenter__(self) -> Self:
        """Take up what earlier processes left open."""
        await self._wallet.__aenter__()
        await self._placing.acquire()
        for batch in await asyncio.to_thread(self._ledger.read):
            self._submitter.know(batch)
            if batch.phase is not Phase.DONE:
                await self._take_up(batch)
        self._working = [asyncio.create_task(self._settle_doubts()), asyncio.create_task(self._poll_regularly())]
        return self

    async def __aexit__(self, *_: object) -> None:
        """End; what is at the vendor stays there, and in the ledger."""
        if self._cut_at == inf:
            self.stop(0.0)
        await self._create_ended()
        await asyncio.gather(*self._working, *self._streams, return_exceptions=True)
        await self._wallet.__aexit__()
        await self._provider.close()
        await self._api.close()

    def stop(self, drain_s: float) -> None:
        """Begin no further request; the one that makes a batch, where one is open, has so many seconds to end.

        Harvests are cut off: what they filed is kept, and the next run reads the rest.
        """
        self._cut_at = min(self._cut_at, self._world.clock() + drain_s)
        self._placer.ending = True
        creating = self._placer.creating
        for task in (*self._working, *self._streams):
            if creating is None or task is not creating.task:
                task.cancel()

    async def _create_ended(self) -> None:
        """Wait for an open create request until the drain ends, then cut it off: its intent stays in the ledger."""
        while self._placer.creating and self._cut_at > self._world.clock():
            await asyncio.sleep(CREATE_LOOK_S)
        if creating := self._placer.creating:
            intent = creating.batch.intent
            self._tally.notes.append(
                f"the request to make batch {creating.batch.name} ({intent.rows} rows of {intent.model}, at most "
                f"${intent.nanousd / NANO:.4f}) was cut off: the same command looks for the batch at the vendor"
            )
        for task in (*self._working, *self._streams):
            task.cancel()

    async def complete(self, model: str, jobs: Iterator[Job]) -> None:
        """Bring the calls of these jobs, all of one model, to the vendor; several such streams may run at once.

        They fill their batches in turn, because all at once would fill the memory. Returns once each job is in a
        batch there, answered, or left open; `jobs` is read in a thread.

        Raises:
            LeaseLost: another driver has the store.
            ConfigError: the key belongs to another organisation than the open batches.
            OSError: the store cannot be written.
        """
        packer = RowPacker(self._provider, self._api, self._models[model], self._prices[model], self._codes)
        with self._breaking(), self._stream():
            await self._submitter.submit(model, lambda: [packer.row(job) for job in islice(jobs, CHUNK)])

    @contextmanager
    def _stream(self) -> Iterator[None]:
        """Around one stream; one that `stop` ends has brought to the vendor what it could."""
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            self._world.watch.guard()
            yield
        except (Interrupted, asyncio.CancelledError):
            if not self._placer.ending:
                raise
        finally:
            self._streams.discard(task)

    def holds(self, keys: Iterable[str]) -> bool:
        """Whether one of these calls is in an open batch, or on its way into one."""
        return self._rows.holds(keys)

    def tell(self) -> BatchCounters:
        """What was done so far; open rows and notes are told once."""
        tally = self._tally
        wallet = self._wallet
        tally.lost_nanousd, tally.spent_nanousd = wallet.lost, wallet.spent
        tally.reserved_nanousd = wallet.reserved + wallet.in_batches
        told = deepcopy(tally)
        told.batches = tuple(batch for _, batch in self._rows.batches)
        told.creating_nanousd = self._placer.creating.batch.intent.nanousd if self._placer.creating else 0
        tally.open.clear()
        tally.notes.clear()
        return told

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.broken = self.broken or error
            raise

    async def _take_up(self, batch: Batch) -> None:
        """Wait for a batch that an earlier process made."""
        intent = batch.intent
        if intent.model not in self._models:
            self._tally.notes.append(
                f"batch {batch.name} is of the model {intent.model}, which this sweep does not use: the sweep "
                f"whose run is at {intent.run}, seen from the store, collects it"
            )
            return
        home = Home(intent.model, is_own=batch.events[0].epoch in self._world.epochs)
        if home.is_own:
            home.nanousd = intent.nanousd
            self._wallet.take_up(intent.nanousd)
        if batch.phase is Phase.ENDED and batch.batch_id is None:
            self._placer.close(batch, "", "", Harvest())
            return self._wallet.collect(home.nanousd, cost=0, lost=0)
        home.since = home.due = self._world.clock()
        home.keys = KeySet(body_hashes(await asyncio.to_thread(self._ledger.rows, batch)))
        self._rows.open(home, batch)

    async def _settle_doubts(self) -> None:
        """Find out what became of the batches that a crash left in doubt, before any other is made."""
        try:
            with self._breaking():
                for home, batch in [(h, b) for h, b in self._rows.batches if b.phase is Phase.IN_DOUBT]:
                    if self._placer.ending:
                        return
                    await self._settle_doubt(home, batch)
        finally:
            self._placing.release()

    async def _settle_doubt(self, home: Home, batch: Batch) -> None:
        lines = await asyncio.to_thread(self._ledger.lines, batch)
        before = batch.intent
        watch = self._world.watch

        def again(owner: str, newest: str | None) -> Intent:
            fresh = {"epoch": watch.epoch, "at": watch.today(), "owner": owner, "newest": newest}
            return before.model_copy(update=fresh)

        try:
            await self._placer.place(batch, lines, again)
            home.since = home.due = self._world.clock()
            return
        except RateLimited as error:
            self._queues.wait(home.model, error)
            refusal = str(error)
        except TransientError as error:
            return self._rows.leave_in_doubt(error)
        except BadRows as error:
            refusal = str(error)
        except CallError as error:
            self._rows.heed(home.model, error)
            refusal = str(error)
        self._collector.give_up(home, batch, "refused", refusal, Harvest())

    async def _poll_regularly(self) -> None:
        with self._breaking():
            await self._collector.poll_regularly()
