"""Sends the rows of one stage and model in waves, each reserving an upper bound computed from the earlier ones.

A wave starts only when every row of the earlier ones is accounted for. Rows outside the population, and all rows once
anything breaks the sample, are left to the caller, which reserves the most that they can cost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager

from hab_ray.catalog.prices import Mode, estimated_input_tokens, rates
from hab_ray.engine.batch.cells import Cell, WavesOfCell
from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.packing import PackedRow, Room
from hab_ray.engine.batch.rows import BatchInFlight, WaveUnderWay
from hab_ray.engine.budget.bound import Wave, WavePart

LOOK_S = 0.2
FOUND_AT_ONCE = 1024
MONEY_S = 1.0


class RowSource:
    """The rows of a stream: first those put back, then new ones, last those postponed. `take` runs in a thread."""

    def __init__(self, next_rows: Callable[[], list[PackedRow]]) -> None:
        self._next_rows = next_rows
        self._put_back: list[PackedRow] = []
        self._postponed: list[PackedRow] = []

    def take(self) -> list[PackedRow]:
        """Return the next rows that are not postponed; [] at the end."""
        rows, self._put_back = self._put_back, []
        return rows or self._next_rows()

    def take_all(self) -> list[PackedRow]:
        """Return the next rows, including postponed ones; [] at the end."""
        rows = self.take()
        if not rows:
            rows, self._postponed = self._postponed, []
        return rows

    def put_back(self, rows: Collection[PackedRow]) -> None:
        """Return rows to the front of the stream."""
        self._put_back = [*rows, *self._put_back]

    def postpone(self, row: PackedRow) -> None:
        """Move a row to the end of the stream."""
        self._postponed.append(row)


class WaveSender:
    """Sends a cell in waves: reserves the largest that there is money for, submits it, waits until its cost is known.

    `submit_all` submits a batch; `room` returns a model's limits for one. While `blocked`, another stream may pack.
    """

    def __init__(
        self,
        components: Components,
        submit_all: Callable[[BatchInFlight], Awaitable[None]],
        room: Callable[[str], Room],
        blocked: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        self._components, self._submit_all, self._room, self._blocked = components, submit_all, room, blocked
        self._rows, self._counters, self._budget = components.rows, components.counters, components.budget

    async def send(self, model: str, source: RowSource, cell: Cell) -> None:
        """Send as much as possible in waves; the caller sends the rest of the stream like any other."""
        waves = await self._waves_of(cell, self._room(model))
        if not waves.is_unfinished:
            await self._observe(model, waves)
        self._check_price(model, cell, waves)
        while waves.is_open and (wave := await self._reserve(model, waves)):
            await asyncio.to_thread(waves.begin, wave)
            under_way = WaveUnderWay(wave.nanousd)
            try:
                for part in wave.parts:
                    await self._submit(model, source, waves, under_way, part)
            finally:
                self._budget.release(under_way.nanousd)
            if waves.is_last:
                break
            await self._observe(model, waves)
            self._check_price(model, cell, waves)
        if waves.broken and self._may_send(model):
            self._counters.notes.append(
                f"{model}: the cost of earlier rows says nothing about the rest ({waves.broken}); the most that each "
                "can cost is reserved, as with `reserve: hard`"
            )

    def _check_price(self, model: str, cell: Cell, waves: WavesOfCell) -> None:
        prices, today = rates(self._components.models[model], Mode.BATCH), self._components.context.today().date()
        if waves.is_open and not prices.reserved(today) == prices.on(today) == cell.price:
            waves.broken = "the model's price changes"

    async def _observe(self, model: str, waves: WavesOfCell) -> None:
        """Wait until the batches of the wave in progress, if any, are closed, and add their costs to the sample."""
        keys = list(waves.under_way)
        batches = set(filter(None, self._rows.find(keys).values()))
        async with self._blocked():
            while self._may_send(model) and not batches.isdisjoint(self._rows.batches):
                await asyncio.sleep(LOOK_S)
        if keys and self._may_send(model) and not waves.broken:
            await asyncio.to_thread(waves.observe, self._components.ledger.folder, model)

    async def _waves_of(self, cell: Cell, room: Room) -> WavesOfCell:
        tokens = room.tokens // max(1, estimated_input_tokens(cell.line_bytes))
        largest = min(room.rows, room.bytes // (cell.line_bytes + 1), tokens)
        sent: set[str] = set()
        for start in range(0, len(cell.keys), FOUND_AT_ONCE):
            sent |= self._rows.sent(cell.keys[start : start + FOUND_AT_ONCE])
            await asyncio.sleep(0)
        unsent = [key for key in dict.fromkeys(cell.keys) if key not in sent]
        return await asyncio.to_thread(WavesOfCell, cell, unsent, max(1, int(largest)))

    def _may_send(self, model: str) -> bool:
        return self._components.now(model).takes_batches

    async def _reserve(self, model: str, waves: WavesOfCell) -> Wave | None:
        """Reserve the largest wave that there is money for, waiting for money; None if none can ever be paid for."""
        computed: list[Wave] = []
        remaining = waves.waves()
        while self._may_send(model) and model not in self._components.overruns:
            for wave in computed:
                if await self._budget.reserve_now(wave.nanousd):
                    return wave
            while smaller := await asyncio.to_thread(next, remaining, None):
                computed.append(smaller)
                if await self._budget.reserve_now(smaller.nanousd):
                    return smaller
            if not computed or self._budget.refusal(computed[-1].nanousd):
                return None
            with self._budget.waiting.pending(computed[-1].nanousd):
                async with self._blocked():
                    await asyncio.sleep(MONEY_S)
        return None

    async def _submit(
        self, model: str, source: RowSource, waves: WavesOfCell, wave: WaveUnderWay, part: WavePart
    ) -> None:
        batch, stopping = BatchInFlight(model, wave=wave), self._components.stopping
        batch.pack.bound = part.nanousd
        while not (stopping.is_set() or waves.broken) and len(batch.pack.rows) < part.rows:
            chunk = await asyncio.to_thread(source.take)
            if not chunk:
                waves.broken = "there are fewer rows than were counted"
            found, room = self._rows.find([row.key for row in chunk]), self._room(model)
            for number, row in enumerate(chunk):
                if len(batch.pack.rows) == part.rows or waves.broken:
                    source.put_back(chunk[number:])
                    break
                if not waves.take_if_next(row):
                    source.postpone(row)
                elif waves.exceeds_cap(row):
                    waves.broken = "one can cost more than was expected of any"
                    source.postpone(row)
                elif not batch.pack.has_room_for(row, room):
                    waves.broken = "a batch has no room for that many"
                    source.postpone(row)
                else:
                    self._counters.offered[row.shard] += 1
                    if self._rows.join(row, found):
                        waves.broken = "some are in another batch"
                        continue
                    self._rows.pack(row, batch)
        await self._submit_all(batch)
