"""Packs the calls of a provider account into batches and brings these to the vendor.

row ── key answered or in flight ──> waits there        row ── packed ── room, money ──> in a batch (see `placing`)
packed ── no money left ──> open: named with its reason
packed ── model or provider stopped, the deadline passed ──> given back to whoever offered it
packed ── batch refused for its rows ──> packed in parts ── refused alone ──> a permanent failure
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf

from hab_ray.engine.batch.collect import Harvest
from hab_ray.engine.batch.components import EngineContext
from hab_ray.engine.batch.in_flight import Home
from hab_ray.engine.batch.packing import Pack, PackedRow, Room
from hab_ray.engine.jobs import OpenKind
from hab_ray.engine.ledger import Batch, Intent, Lines, Phase
from hab_ray.errors import CallError, Interrupted, RateLimited, TransientError
from hab_ray.providers.batching import BadRows, BatchRefused
from hab_ray.storage.keyindex import KeySet

WAIT_S = 0.2
QUICK_S = 2.0
FEWEST_TRIES = 8
TRIES_A_HALVING = 4


class Submitter:
    """Brings rows to the vendor, in batches that are made one at a time.

    `placing` is held while a batch is made, and by whoever looks for batches in doubt before any other is made.
    """

    def __init__(self, context: EngineContext, placing: asyncio.Lock) -> None:
        self._context, self._placing = context, placing
        self._rows, self._tally, self._wallet = context.rows, context.tally, context.wallet
        self._placer, self._queues = context.placer, context.queues
        self._packing = asyncio.Lock()
        self._next = 1

    def know(self, batch: Batch) -> None:
        """Take note of a batch in the ledger: its number is taken, and its id at the vendor is ours."""
        self._next = batch.number + 1
        if batch.batch_id:
            self._placer.know(batch.batch_id)

    async def submit(self, model: str, next_rows: Callable[[], list[PackedRow]]) -> None:
        """Bring all rows of a stream to the vendor; `next_rows` runs in a thread and ends with an empty list.

        Streams pack in turn, because all at once would fill the memory.
        """
        async with self._packing:
            await self._pack_all(model, next_rows)

    async def _pack_all(self, model: str, next_rows: Callable[[], list[PackedRow]]) -> None:
        home, pack = Home(model), Pack()
        while not self._placer.ending and (chunk := await asyncio.to_thread(next_rows)):
            known = self._rows.known([row.key for row in chunk])
            for row in chunk:
                self._tally.offered[row.shard] += 1
                if self._rows.joins(row, known):
                    continue
                if not pack.has_room_for(row, self._room(model)):
                    await self._submit_pack(home, pack)
                    home, pack = Home(model), Pack()
                    known = self._rows.known([row.key for row in chunk])
                pack.add(row)
                self._rows.pack(row, home)
        if pack.rows and not self._placer.ending:
            await self._submit_pack(home, pack)

    def _room(self, model: str) -> Room:
        policy, size = self._context.policy, self._context.api.batch_size
        return Room(
            rows=min(policy.rows, size.rows),
            bytes=min(int(policy.megabytes * 2**20), size.bytes),
            tokens=self._queues.limit(model),
            nanousd=inf if self._wallet.left is None else self._wallet.left,
        )

    async def _submit_pack(self, home: Home, pack: Pack) -> None:
        """Bring a pack to the vendor, in parts where the vendor refuses it for some of its rows."""
        tries = FEWEST_TRIES + TRIES_A_HALVING * len(pack.rows).bit_length()
        parts = [(home, pack)]
        bad: list[tuple[Home, PackedRow, BadRows]] = []
        while parts:
            home, pack = parts.pop()
            try:
                await self._submit_part(home, pack)
            except BadRows as error:
                tries -= 1
                if tries <= 0:
                    self._tally.refuse(home.model, BatchRefused(f"too many of its rows are malformed: {error}"))
                if len(pack.rows) == 1:
                    bad.append((home, pack.rows[0], error))
                    continue
                rest, apart = pack.parted(error.rows)
                parts += [(home, rest), (self._rows.part(home, apart), apart)]
        for home, row, refusal in bad:
            if tries > 0:
                await self._fail(home, row, refusal)
            self._rows.give_back(home)

    async def _fail(self, home: Home, row: PackedRow, error: BadRows) -> None:
        """End a row that the vendor refuses in a batch of its own too."""
        await self._context.harvester.give_up(home.model, row.key, str(error))
        self._rows.answer([row.key])
        self._tally.notes.append(f"{home.model}: row {row.row_id} failed every batch it was in: {error}")

    async def _submit_part(self, home: Home, pack: Pack) -> None:
        """Bring a pack to the vendor once there is room and money for it.

        Raises:
            BadRows: the vendor refuses it for some of its rows.
        """
        ledger = self._context.ledger
        while await self._has_leave(home, pack):
            batch: Batch | None = None
            lines = pack.lines()
            try:
                async with self._placing:
                    batch, self._next = Batch(ledger.provider, self._next), self._next + 1
                    await asyncio.to_thread(ledger.keep, batch.number, lines)
                    await self._placer.place(batch, lines, self._intent(home.model, pack, lines))
                return self._opened(home, batch, pack)
            except RateLimited as error:
                self._queues.wait(home.model, error)
                self._refused(batch, error)
            except TransientError as error:
                self._rows.leave_in_doubt(error)
            except BadRows as error:
                self._refused(batch, error)
                self._set_free(home.nanousd, batch)
                raise
            except CallError as error:
                self._refused(batch, error)
                self._rows.heed(home.model, error)
            except (Interrupted, asyncio.CancelledError):
                self._set_free(home.nanousd, batch)
                raise
            self._set_free(home.nanousd, batch)

    def _opened(self, home: Home, batch: Batch, pack: Pack) -> None:
        home.keys = KeySet(pack.keys())
        home.since = self._context.world.clock()
        home.due = home.since + home.interval_s(batch, home.since, self._context.policy)
        self._rows.unpack(home)
        self._rows.open(home, batch)
        self._tally.calls += batch.intent.rows

    def _refused(self, batch: Batch | None, error: CallError) -> None:
        """Close a batch that the vendor did not make."""
        if batch and batch.events:
            self._placer.close(batch, "refused", str(error), Harvest())

    def _set_free(self, nanousd: int, batch: Batch | None) -> None:
        """Take back what was set aside for a batch that was not made; while that is in doubt, nothing."""
        if batch is None or not batch.events:
            self._wallet.release(nanousd)
        elif batch.phase is Phase.DONE:
            self._wallet.collect(nanousd, cost=0, lost=0)

    def _intent(self, model: str, pack: Pack, lines: Lines) -> Callable[[str, str | None], Intent]:
        world, first = self._context.world, pack.rows[0]

        def made(owner: str, newest: str | None) -> Intent:
            return Intent(
                epoch=world.watch.epoch,
                at=world.watch.today(),
                tag=world.token(),
                run=world.run,
                model=model,
                wire=self._context.models[model].wire,
                path=first.path,
                version=first.version,
                embeds=first.embeds,
                rows=len(pack.rows),
                bytes=pack.bytes,
                tokens=pack.tokens,
                nanousd=pack.nanousd,
                rows_file=lines.rows_file,
                requests_file=lines.requests_file,
                owner=owner,
                newest=newest,
            )

        return made

    async def _has_leave(self, home: Home, pack: Pack) -> bool:
        """Wait for room in the vendor's queue and for money; False if the pack will not be sent from here."""
        if not await self._has_room(home, pack):
            return False
        refusal = await self._reserved(pack)
        while refusal and pack.rows:
            self._rows.leave_open(home, pack.pop(), OpenKind.BUDGET, refusal)
            if self._wallet.left is not None and pack.nanousd <= self._wallet.left:
                refusal = await self._reserved(pack)
        home.nanousd = pack.nanousd
        if not pack.rows:
            self._rows.give_back(home)
        return bool(pack.rows)

    async def _has_room(self, home: Home, pack: Pack) -> bool:
        """Wait for room; False if meanwhile nothing more may be sent, and then the pack's rows are given back."""
        model = home.model

        def is_full() -> bool:
            return not self._queues.has_room(model, self._rows.enqueued(model), pack.tokens)

        if is_full() and not self._is_closed(model):
            async with self._stuck():
                while is_full() and not self._is_closed(model):
                    await asyncio.sleep(WAIT_S)
        if self._is_closed(model):
            self._rows.give_back(home)
            return False
        return True

    def _is_closed(self, model: str) -> bool:
        """Whether nothing more may be sent to a model by batch."""
        return self._placer.ending or self._context.world.is_late or bool(self._tally.closed(model))

    async def _reserved(self, pack: Pack) -> str | None:
        """Set aside what a pack may cost, or say why that cannot be."""
        reserving = asyncio.ensure_future(self._wallet.reserve(pack.nanousd))
        try:
            await asyncio.wait({reserving}, timeout=QUICK_S)
            while self._wallet.is_asking and not reserving.done():
                await asyncio.wait({reserving}, timeout=WAIT_S)
            if reserving.done():
                return reserving.result()
            async with self._stuck():
                return await reserving
        except asyncio.CancelledError:
            if reserving.done() and not reserving.cancelled() and reserving.result() is None:
                self._wallet.release(pack.nanousd)
            reserving.cancel()
            raise

    @asynccontextmanager
    async def _stuck(self) -> AsyncIterator[None]:
        """While a stream waits for room in the vendor's queue, or for money that open batches have set aside.

        Meanwhile it lets another stream pack.
        """
        self._tally.stuck += 1
        self._packing.release()
        try:
            yield
        finally:
            self._tally.stuck -= 1
            await self._packing.acquire()
