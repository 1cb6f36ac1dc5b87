"""Packs the calls of a provider account into batches, waits for room and money, and has them created."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf

from hab_ray.catalog.prices import Mode, rates
from hab_ray.engine.alike import MIN_ALIKE
from hab_ray.engine.batch.actions import Action, AwaitRoom, FitToBudget, GiveBack, Reserve
from hab_ray.engine.batch.cells import Cell
from hab_ray.engine.batch.collect import Collector
from hab_ray.engine.batch.components import Components, UnexpectedAction
from hab_ray.engine.batch.create import Creator
from hab_ray.engine.batch.decisions import next_action
from hab_ray.engine.batch.packing import Pack, PackedRow, Room
from hab_ray.engine.batch.rows import BatchInFlight, Request
from hab_ray.engine.batch.states import AtVendor, Closed, Funded, Malformed, Packed
from hab_ray.engine.batch.waves import RowSource, WaveSender
from hab_ray.engine.ledger import Intent
from hab_ray.providers.batching import BadRows, BatchRefused
from hab_ray.storage.lease.watches import until_held
from hab_ray.storage.replies.keyindex import KeySet

WAIT_S = 0.2
QUICK_S = 2.0
MIN_TRIES = 8
TRIES_PER_HALVING = 4
WHOLE_AND_HALF, MIN_SINGLES = 2, 3


@dataclass
class _Refusals:
    """Refusals of a batch of `rows` rows and of its parts; `accepted` parts were not refused.

    If the batch and a half of it are refused with the same message, single rows are tried next. If a few of them get
    that message too, and no part was accepted, it is about no row in particular.
    """

    rows: int
    accepted: int = 0
    singles: int = 0
    messages: set[str] = field(default_factory=set)
    count: int = 0

    def add(self, rows: int, error: BadRows) -> None:
        self.count += 1
        self.singles += rows == 1
        self.messages.add(str(error))

    def probe(self, rows: int) -> tuple[int, ...]:
        """Return which of a part's rows to try alone, () to go on halving. Bad rows may be adjacent: vary the place."""
        if not self._are_alike or self.count < WHOLE_AND_HALF:
            return ()
        return ((0, rows - 1, rows // 2)[self.singles % MIN_SINGLES],)

    @property
    def concern_no_row(self) -> bool:
        """Whether every batch of this model would be refused in the same way."""
        return self._are_alike and self.singles >= MIN_SINGLES

    @property
    def _are_alike(self) -> bool:
        return self.rows >= MIN_ALIKE and not self.accepted and len(self.messages) == 1


class Submitter:
    """Submits streams of rows. One stream packs at a time, because all at once could exhaust the memory."""

    states = (Packed,)

    def __init__(self, components: Components, creator: Creator, collector: Collector) -> None:
        self._components, self._creator, self._collector = components, creator, collector
        self._rows, self._counters, self._budget = components.rows, components.counters, components.budget
        self._packing = asyncio.Lock()

    async def submit(self, model: str, next_rows: Callable[[], list[PackedRow]], cell: Cell | None) -> None:
        """Submit a stream's rows, in waves if they are a `cell`. `next_rows` runs in a thread; [] ends the stream."""
        await until_held(self._components.context.guard)
        async with self._packing:
            if cell is None:
                return await self._pack_all(model, next_rows)
            source = RowSource(next_rows)
            await WaveSender(self._components, self._submit_all, self._room, self._blocked).send(model, source, cell)
            await self._pack_all(model, source.take_all)

    async def _pack_all(self, model: str, next_rows: Callable[[], list[PackedRow]]) -> None:
        stopping = self._components.stopping
        batch = BatchInFlight(model)
        while not stopping.is_set() and (chunk := await asyncio.to_thread(next_rows)):
            found = self._rows.find([row.key for row in chunk])
            for row in chunk:
                self._counters.offered[row.shard] += 1
                is_held = self._rows.join(row, found)
                while not (is_held or batch.pack.has_room_for(row, self._room(model)) or stopping.is_set()):
                    batch = await self._submit(batch)
                    found = self._rows.find([row.key for row in chunk])
                    is_held = self._rows.join(row, found)  # another stream may have packed it meanwhile
                if not is_held:
                    self._rows.pack(row, batch)
        await self._submit_all(batch)

    def _room(self, model: str) -> Room:
        policy, size = self._components.policy, self._components.api.batch_size
        return Room(
            rows=min(policy.rows, size.rows),
            bytes=min(int(policy.megabytes * 2**20), size.bytes),
            tokens=self._components.limits.limit(model),
            nanousd=inf if self._budget.left is None else self._budget.left,
        )

    async def _submit_all(self, batch: BatchInFlight) -> None:
        while batch.pack.rows and not self._components.stopping.is_set():
            batch = await self._submit(batch)

    async def _submit(self, whole: BatchInFlight) -> BatchInFlight:
        """Submit a batch; split it if the vendor refuses it for some of its rows.

        Returns:
            The next batch, with the rows that there is no money for until other batches end.
        """
        whole.later = later = BatchInFlight(whole.model, wave=whole.wave)
        tries = MIN_TRIES + TRIES_PER_HALVING * len(whole.pack.rows).bit_length()
        refusals, is_model_refused = _Refusals(len(whole.pack.rows)), False
        parts = [whole]
        bad: list[tuple[BatchInFlight, BadRows]] = []
        while parts:
            batch = parts.pop()
            error = await self._submit_part(batch)
            if error is None:
                refusals.accepted += 1
                continue
            rows = len(batch.pack.rows)
            refusals.add(rows, error)
            tries -= 1
            is_model_refused = is_model_refused or refusals.concern_no_row
            if is_model_refused:
                reason = "a batch, parts of it and single rows are all refused in the same words"
                self._counters.refuse(batch.model, BatchRefused(f"{reason}: {error}"))
            elif tries <= 0:
                self._counters.refuse(batch.model, BatchRefused(f"too many of its rows are malformed: {error}"))
            if rows == 1:
                bad.append((batch, error))
            else:
                parts += [batch, self._rows.split(batch, error.rows or refusals.probe(rows))]
        for batch, refusal in bad:
            if tries > 0 and not is_model_refused:
                await self._fail(batch, refusal)
            self._rows.give_back(batch)
        return later

    async def _fail(self, batch: BatchInFlight, error: BadRows) -> None:
        (row,) = batch.pack.rows
        await self._collector.give_up(batch.model, row.key, str(error))
        self._rows.mark_answered([row.key])
        self._counters.notes.append(f"{batch.model}: row {row.row_id} failed every batch it was in: {error}")

    async def _submit_part(self, batch: BatchInFlight) -> BadRows | None:
        """Have a batch created, or return its rows; return the refusal if it was refused for some of its rows."""
        batch.state = batch.packed()
        while isinstance(batch.state, Packed):
            await self._components.advance(batch, self)
            if isinstance(batch.state, Funded):
                batch.request = self._request(batch)
                await self._creator.create(batch)
        match batch.state:
            case Malformed(error):
                return error
            case AtVendor(record):
                self._rows.open(batch, record, KeySet(batch.pack.keys()))
                self._components.limits.note_accepted(batch.model)
                self._counters.calls += record.intent.rows
                self._counters.traffic[record.intent.model].sent += record.intent.rows
            case _:
                self._rows.give_back(batch)
        return None

    async def perform(self, batch: BatchInFlight, state: Packed, action: Action) -> Packed | Funded | Closed:
        match state, action:
            case Packed(), GiveBack():
                return Closed()
            case Packed(), AwaitRoom():
                await self._await_room(batch.model, state)
                return state
            case Packed(), FitToBudget(nanousd, reason) if batch.later:
                self._rows.fit(batch, nanousd, reason, batch.later)
                return batch.packed(reason)
            case Packed(), Reserve():
                batch.nanousd = batch.pack.nanousd
                if batch.wave and batch.wave.fund(batch.pack):
                    return Funded()
                refusal = await self._reserve(batch.pack)
                return Funded() if refusal is None else batch.packed(refusal)
        raise UnexpectedAction(state, action)

    async def _await_room(self, model: str, state: Packed) -> None:
        components = self._components
        async with self._blocked():
            while isinstance(next_action(state, components.now(model, state.tokens), components.policy), AwaitRoom):
                await asyncio.sleep(WAIT_S)

    def _request(self, batch: BatchInFlight) -> Request:
        context, pack, lines = self._components.context, batch.pack, batch.pack.lines()
        first, today = pack.rows[0], context.today()
        intent = Intent(
            epoch=context.epoch,
            at=today,
            tag=context.new_tag(),
            run=context.run,
            model=batch.model,
            wire=self._components.models[batch.model].wire,
            path=first.path,
            version=first.version,
            embeds=first.embeds,
            rows=len(pack.rows),
            bytes=pack.bytes,
            tokens=pack.tokens,
            nanousd=pack.nanousd,
            rows_file=lines.rows_file,
            requests_file=lines.requests_file,
            owner="",
            newest=None,
            most_nanousd=pack.most if batch.wave else None,
            price=rates(self._components.models[batch.model], Mode.BATCH).on(today.date()),
        )
        return Request(lines, intent)

    async def _reserve(self, pack: Pack) -> str | None:
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
        """Let another stream pack while this one waits for room in the vendor's queue, or for money of open batches.

        A stream that is cancelled here holds the lock again when it ends.
        """
        self._counters.blocked_streams += 1
        self._packing.release()
        try:
            yield
        finally:
            self._counters.blocked_streams -= 1
            await self._packing.acquire()
