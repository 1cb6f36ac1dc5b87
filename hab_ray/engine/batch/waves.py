"""Sends the rows of one stage and model in waves, each reserving what the ones before say that it costs at most.

A wave is made only when every row of the earlier ones is accounted for. Rows that are not of the population, and all
rows once anything breaks the sample, are left to the caller, who sets aside the most that they can cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager

from hab_ray.engine.batch.cells import Cell, WavesOfCell
from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.packing import PackedRow, Room
from hab_ray.engine.batch.rows import BatchInFlight, WaveUnderWay
from hab_ray.engine.budget.bound import Wave, WavePart
from hab_ray.engine.tokens import estimated_input_tokens

LOOK_S = 0.2
MONEY_S = 1.0


class RowSource:
    """The rows of a stream, with those put back before all others. `take` runs in a thread."""

    def __init__(self, next_rows: Callable[[], list[PackedRow]]) -> None:
        self._next_rows = next_rows
        self._back: list[PackedRow] = []
        self._aside: list[PackedRow] = []

    def take(self) -> list[PackedRow]:
        """The next rows; none at the end."""
        rows, self._back = self._back, []
        return rows or self._next_rows()

    def take_all(self) -> list[PackedRow]:
        """The next rows, at the end those set aside."""
        rows = self.take()
        if not rows:
            rows, self._aside = self._aside, []
        return rows

    def put_back(self, rows: Collection[PackedRow]) -> None:
        """Have these rows come next."""
        self._back = [*rows, *self._back]

    def set_aside(self, row: PackedRow) -> None:
        """Have this row come after all others."""
        self._aside.append(row)


class WaveSender:
    """Sends a cell in waves: chooses the largest that there is money for, has it submitted, waits until it is paid.

    `submit_all` brings a batch to the vendor; `room` is what a batch of a model may hold. While `blocked` another
    stream may pack.
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
        """Send what may go out in waves; on return the rest of the stream is to be sent as any other."""
        known = await asyncio.to_thread(self._waves_of, cell, self._room(model))
        await self._observe(model, known)
        while known.is_open and (wave := await self._funded(model, known)):
            await asyncio.to_thread(known.begin, wave)
            under_way = WaveUnderWay(wave.nanousd)
            try:
                for part in wave.parts:
                    await self._submit(model, source, known, under_way, part)
            finally:
                self._budget.release(under_way.nanousd)
            await self._observe(model, known)
        if known.broken and self._may_send(model):
            self._counters.notes.append(
                f"{model}: what rows have cost tells nothing of the rest ({known.broken}); the most that each can cost "
                "is set aside, as with `reserve: hard`"
            )

    async def _observe(self, model: str, known: WavesOfCell) -> None:
        """Wait until the wave under way, if any, is paid for, and take in what it has cost."""
        keys = list(known.under_way)
        batches = set(filter(None, self._rows.known(keys).values()))
        async with self._blocked():
            while self._may_send(model) and not batches.isdisjoint(self._rows.batches):
                await asyncio.sleep(LOOK_S)
        if keys and self._may_send(model) and not known.broken:
            await asyncio.to_thread(known.observe, self._components.ledger.folder, model)

    def _waves_of(self, cell: Cell, room: Room) -> WavesOfCell:
        tokens = room.tokens // max(1, estimated_input_tokens(cell.line_bytes))
        largest = min(room.rows, room.bytes // (cell.line_bytes + 1), tokens)
        sent = self._rows.sent(list(cell.keys))
        unsent = [key for key in dict.fromkeys(cell.keys) if key not in sent]
        return WavesOfCell(cell, unsent, max(1, int(largest)))

    def _may_send(self, model: str) -> bool:
        return self._components.now(model).takes_batches

    async def _funded(self, model: str, cell: WavesOfCell) -> Wave | None:
        """The largest wave that there is money for, waiting for some; None if none can ever be paid for."""
        possible: list[Wave] = []
        computing = cell.waves()
        while self._may_send(model) and model not in self._components.surprises:
            for wave in possible:
                if await self._budget.reserve_now(wave.nanousd):
                    return wave
            while another := await asyncio.to_thread(next, computing, None):
                possible.append(another)
                if await self._budget.reserve_now(another.nanousd):
                    return another
            if not possible or self._budget.refusal(possible[-1].nanousd):
                return None
            with self._budget.waiting.pending(possible[-1].nanousd):
                async with self._blocked():
                    await asyncio.sleep(MONEY_S)
        return None

    async def _submit(
        self, model: str, source: RowSource, cell: WavesOfCell, wave: WaveUnderWay, part: WavePart
    ) -> None:
        """Bring the next rows of a cell to the vendor as one batch, with what is set aside for it."""
        batch, stopping = BatchInFlight(model, wave=wave), self._components.stopping
        batch.pack.bound = part.nanousd
        while not (stopping.is_set() or cell.broken) and len(batch.pack.rows) < part.rows:
            chunk = await asyncio.to_thread(source.take)
            if not chunk:
                cell.broken = "there are fewer than were counted"
            known = self._rows.known([row.key for row in chunk])
            for number, row in enumerate(chunk):
                if len(batch.pack.rows) == part.rows or cell.broken:
                    source.put_back(chunk[number:])
                    break
                if not cell.has(row):
                    source.set_aside(row)
                elif cell.is_beyond(row):
                    cell.broken = "one can cost more than was expected of any"
                    source.set_aside(row)
                elif not batch.pack.has_room_for(row, self._room(model)):
                    cell.broken = "a batch has no room for so many"
                    source.set_aside(row)
                else:
                    self._counters.offered[row.shard] += 1
                    if self._rows.joins(row, known):
                        cell.broken = "some are in another batch"
                        continue
                    self._rows.pack(row, batch)
        await self._submit_all(batch)
