"""Packs the calls of a provider account into batches, waits for room and money, and hands them on to be created."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from math import inf

from hab_ray.engine.alike import MIN_ALIKE
from hab_ray.engine.batch.actions import AwaitRoom, FitToBudget, GiveBack, Reserve
from hab_ray.engine.batch.collect import Collector
from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.create import Creator
from hab_ray.engine.batch.decisions import Now, next_action
from hab_ray.engine.batch.filling import Filling, packed
from hab_ray.engine.batch.in_flight import BatchInFlight
from hab_ray.engine.batch.packing import Pack, PackedRow, Room
from hab_ray.engine.batch.send import Request
from hab_ray.engine.batch.states import AtVendor, Closed, Funded, Malformed, Packed, Requeued
from hab_ray.engine.batch.wave_sender import WaveSender
from hab_ray.engine.batch.waves import Cell, RowSource, WaveUnderWay
from hab_ray.engine.jobs import OpenKind
from hab_ray.engine.ledger import Intent
from hab_ray.providers.batching import BadRows, BatchRefused
from hab_ray.storage.keyindex import KeySet
from hab_ray.storage.watches import until_held

WAIT_S = 0.2
QUICK_S = 2.0
FEWEST_TRIES = 8
TRIES_A_HALVING = 4
WHOLE_AND_HALF, FEWEST_SINGLES = 2, 3


@dataclass
class _Refusals:
    """How a batch of so many rows and parts of it were refused; `taken` parts were not.

    Where the batch and a half of it are refused in the same words, single rows are tried next: only if these words are
    said of a few of them too, and nothing was taken, they are about no row in particular.
    """

    rows: int
    taken: int = 0
    singles: int = 0
    words: set[str] = field(default_factory=set)
    count: int = 0

    def note(self, rows: int, error: BadRows) -> None:
        """Take in the refusal of a part."""
        self.count += 1
        self.singles += rows == 1
        self.words.add(str(error))

    def probe(self, rows: int) -> tuple[int, ...]:
        """Which of a part's rows is tried alone, none where halving goes on: bad ones may be neighbours."""
        if not self._are_alike or self.count < WHOLE_AND_HALF:
            return ()
        return ((0, rows - 1, rows // 2)[self.singles % FEWEST_SINGLES],)

    @property
    def are_of_no_row(self) -> bool:
        """Whether every batch of this model would be refused so."""
        return self._are_alike and self.singles >= FEWEST_SINGLES

    @property
    def _are_alike(self) -> bool:
        return self.rows >= MIN_ALIKE and not self.taken and len(self.words) == 1


def _of_no_row(error: BadRows) -> BatchRefused:
    return BatchRefused(f"a batch, parts of it and single rows are all refused in the same words: {error}")


class Submitter:
    """Brings streams of rows to the vendor. One stream packs at a time, because all at once would fill the memory."""

    def __init__(self, components: Components, creator: Creator, collector: Collector) -> None:
        self._components, self._creator, self._collector = components, creator, collector
        self._rows, self._counters, self._budget = components.rows, components.counters, components.budget
        self._packing = asyncio.Lock()
        self._sent: list[KeySet] | None = None

    async def submit(self, model: str, next_rows: Callable[[], list[PackedRow]], cell: Cell | None) -> None:
        """Bring all rows of a stream to the vendor; `next_rows` runs in a thread and ends with an empty list.

        Where they are a `cell`, they go out in waves, and what the first ones cost bounds what is set aside for others.
        """
        await until_held(self._components.context.lease.guard)
        async with self._packing:
            if cell is None:
                return await self._pack_all(model, next_rows)
            self._sent, source = self._sent or [], RowSource(next_rows)
            waves = WaveSender(self._components, self._sent, self._submit_pack, self._room, self._blocked)
            await waves.send(model, source, cell)
            await self._pack_all(model, source.take_all)

    async def _pack_all(self, model: str, next_rows: Callable[[], list[PackedRow]]) -> None:
        stopping = self._components.stopping
        filling = Filling.of(model)
        while not stopping.is_set() and (chunk := await asyncio.to_thread(next_rows)):
            known = self._rows.known([row.key for row in chunk])
            for row in chunk:
                self._counters.offered[row.shard] += 1
                if self._rows.joins(row, known):
                    continue
                while not filling.pack.has_room_for(row, self._room(model)) and not stopping.is_set():
                    filling = await self._submit_pack(filling)
                    known = self._rows.known([row.key for row in chunk])
                filling.pack.add(row)
                self._rows.pack(row, filling.batch)
        while filling.pack.rows and not stopping.is_set():
            filling = await self._submit_pack(filling)

    def _room(self, model: str) -> Room:
        policy, size = self._components.policy, self._components.api.batch_size
        return Room(
            rows=min(policy.rows, size.rows),
            bytes=min(int(policy.megabytes * 2**20), size.bytes),
            tokens=self._components.limits.limit(model),
            nanousd=inf if self._budget.left is None else self._budget.left,
        )

    async def _submit_pack(self, filling: Filling) -> Filling:
        """Bring a pack to the vendor, in parts where the vendor refuses it for some of its rows.

        Returns:
            The next pack, with the rows for which there is no money until other batches end.
        """
        later = Filling.of(filling.batch.model, filling.wave)
        tries = FEWEST_TRIES + TRIES_A_HALVING * len(filling.pack.rows).bit_length()
        parts = [(filling.batch, filling.pack)]
        refusals, is_of_no_row = _Refusals(len(filling.pack.rows)), False
        bad: list[tuple[BatchInFlight, PackedRow, BadRows]] = []
        while parts:
            batch, pack = parts.pop()
            error = await self._submit_part(batch, pack, later)
            if error is None:
                refusals.taken += 1
                continue
            refusals.note(len(pack.rows), error)
            tries -= 1
            is_of_no_row = is_of_no_row or refusals.are_of_no_row
            if is_of_no_row:
                self._counters.refuse(batch.model, _of_no_row(error))
            elif tries <= 0:
                self._counters.refuse(batch.model, BatchRefused(f"too many of its rows are malformed: {error}"))
            if len(pack.rows) == 1:
                bad.append((batch, pack.rows[0], error))
                continue
            rest, apart = pack.parted(error.rows or refusals.probe(len(pack.rows)))
            parts += [(batch, rest), (self._rows.part(batch, apart), apart)]
        for batch, row, refusal in bad:
            if tries > 0 and not is_of_no_row:
                await self._fail(batch, row, refusal)
                if filling.wave:
                    filling.wave.failed.add(row.key)
            self._rows.give_back(batch)
        return later

    async def _fail(self, batch: BatchInFlight, row: PackedRow, error: BadRows) -> None:
        """End a row that the vendor refuses in a batch of its own too."""
        await self._collector.give_up(batch.model, row.key, str(error))
        self._rows.answer([row.key])
        self._counters.notes.append(f"{batch.model}: row {row.row_id} failed every batch it was in: {error}")

    async def _submit_part(self, batch: BatchInFlight, pack: Pack, later: Filling) -> BadRows | None:
        """Bring a pack to the vendor; rows for which there is no money yet go into the later pack.

        Returns:
            The refusal, if the vendor refuses it for some of its rows.
        """
        batch.state = packed(pack)
        while True:
            match batch.state:
                case Packed() as state:
                    batch.state = await self._prepare(batch, pack, state, later)
                case Funded():
                    await self._creator.create(batch, self._request(batch.model, pack, later.wave))
                case Requeued():
                    batch.state = packed(pack)
                case Malformed(error):
                    return error
                case AtVendor(record):
                    keys = KeySet(pack.keys())
                    self._rows.open(batch, record, keys)
                    if self._sent is not None:
                        self._sent.append(keys)
                    if later.wave:
                        later.wave.opened.append(batch)
                    self._components.limits.made(batch.model)
                    self._counters.calls += record.intent.rows
                    self._counters.traffic[record.intent.model].sent += record.intent.rows
                    return None
                case _:
                    self._rows.give_back(batch)
                    return None

    async def _prepare(
        self, batch: BatchInFlight, pack: Pack, state: Packed, later: Filling
    ) -> Packed | Funded | Closed:
        match next_action(state, self._now(batch.model, state), self._components.policy):
            case GiveBack():
                return Closed()
            case AwaitRoom():
                await self._await_room(batch.model, state)
                return state
            case FitToBudget(nanousd, reason):
                dear, rest = pack.fit(nanousd)
                for row in dear:
                    self._rows.leave_open(batch, row, OpenKind.BUDGET, reason)
                later.take_over(self._rows, batch, rest)
                return replace(packed(pack), refusal=reason)
            case Reserve():
                batch.nanousd = pack.nanousd
                if later.wave and later.wave.has_funded(pack):
                    return Funded()
                refusal = await self._reserved(pack)
                return Funded() if refusal is None else replace(state, refusal=refusal)

    def _now(self, model: str, state: Packed) -> Now:
        enqueued = self._rows.enqueued(model)
        has_room = self._components.limits.has_room(model, enqueued, state.tokens)
        return replace(self._components.now(model), has_room=has_room)

    async def _await_room(self, model: str, state: Packed) -> None:
        async with self._blocked():
            while isinstance(next_action(state, self._now(model, state), self._components.policy), AwaitRoom):
                await asyncio.sleep(WAIT_S)

    def _request(self, model: str, pack: Pack, wave: WaveUnderWay | None) -> Request:
        context, first, lines = self._components.context, pack.rows[0], pack.lines()

        def intent(owner: str, newest: str | None) -> Intent:
            return Intent(
                epoch=context.lease.epoch,
                at=context.lease.today(),
                tag=context.token(),
                run=context.run,
                model=model,
                wire=self._components.models[model].wire,
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
                most_nanousd=pack.most if wave else None,
            )

        return Request(lines, intent)

    async def _reserved(self, pack: Pack) -> str | None:
        """Set aside what a pack may cost, or say why that cannot be."""
        reserving = asyncio.ensure_future(self._budget.reserve(pack.nanousd))
        try:
            await asyncio.wait({reserving}, timeout=QUICK_S)
            while self._budget.is_asking and not reserving.done():
                await asyncio.wait({reserving}, timeout=WAIT_S)
            if reserving.done():
                return reserving.result()
            async with self._blocked():
                return await reserving
        except asyncio.CancelledError:
            if reserving.done() and not reserving.cancelled() and reserving.result() is None:
                self._budget.release(pack.nanousd)
            reserving.cancel()
            raise

    @asynccontextmanager
    async def _blocked(self) -> AsyncIterator[None]:
        """While a stream waits for room in the vendor's queue, or for money that open batches have set aside.

        Meanwhile another stream may pack. A stream that is cancelled here holds the lock again when it ends.
        """
        self._counters.blocked_streams += 1
        self._packing.release()
        try:
            yield
        finally:
            self._counters.blocked_streams -= 1
            await self._packing.acquire()
