"""Sends a cell in waves: chooses the largest that there is money for, has it submitted, waits until it is paid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager

from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.filling import Filling
from hab_ray.engine.batch.packing import Room
from hab_ray.engine.batch.waves import Cell, RowSource, WavesOfCell, WaveUnderWay
from hab_ray.engine.budget.bound import Part, Wave
from hab_ray.engine.tokens import estimated_input_tokens
from hab_ray.storage.keyindex import KeySet

LOOK_S = 0.2
MONEY_S = 1.0


class WaveSender:
    """Sends one cell. `sent` are the rows that this process has sent before.

    `submit_pack` brings a pack to the vendor and returns the next one; `room` is what a batch of a model may hold.
    While `blocked` another stream may pack.
    """

    def __init__(
        self,
        components: Components,
        sent: Sequence[KeySet],
        submit_pack: Callable[[Filling], Awaitable[Filling]],
        room: Callable[[str], Room],
        blocked: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        self._components, self._sent, self._submit_pack = components, sent, submit_pack
        self._room, self._blocked = room, blocked
        self._rows, self._counters, self._budget = components.rows, components.counters, components.budget

    async def send(self, model: str, source: RowSource, cell: Cell) -> None:
        """Send what may go out in waves; on return the rest of the stream is to be sent as any other."""
        known = await asyncio.to_thread(self._waves_of, cell, self._room(model))
        while known.is_open and (wave := await self._funded(model, known)):
            under_way = WaveUnderWay(wave.nanousd)
            try:
                for part in wave.parts:
                    await self._submit(model, source, known, under_way, part)
            finally:
                self._budget.release(under_way.nanousd)
            async with self._blocked():
                while self._may_send(model) and not set(under_way.opened).isdisjoint(self._rows.batches):
                    await asyncio.sleep(LOOK_S)
            if self._may_send(model) and not known.broken:
                known.observe(under_way)
        if known.broken and self._may_send(model):
            self._counters.notes.append(
                f"{model}: what rows have cost tells nothing of the rest ({known.broken}); the most that each can cost "
                "is set aside, as with `reserve: hard`"
            )

    def _waves_of(self, cell: Cell, room: Room) -> WavesOfCell:
        keys = list(cell.keys)
        outside = {*self._rows.known(keys), *(key for sent in self._sent for key in sent.common(keys))}
        tokens = room.tokens // max(1, estimated_input_tokens(cell.line_bytes))
        largest = min(room.rows, room.bytes // (cell.line_bytes + 1), tokens)
        return WavesOfCell(cell, outside, max(1, int(largest)))

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
            while another := await asyncio.to_thread(_next, computing):
                possible.append(another)
                if await self._budget.reserve_now(another.nanousd):
                    return another
            if not possible or self._budget.refusal(possible[-1].nanousd):
                return None
            with self._budget.waiting.asked(possible[-1].nanousd):
                async with self._blocked():
                    await asyncio.sleep(MONEY_S)
        return None

    async def _submit(self, model: str, source: RowSource, cell: WavesOfCell, wave: WaveUnderWay, part: Part) -> None:
        """Bring the next rows of a cell to the vendor as one batch, with what is set aside for it."""
        filling, stopping = Filling.of(model, wave), self._components.stopping
        filling.pack.bound = part.nanousd
        while not (stopping.is_set() or cell.broken) and len(filling.pack.rows) < part.rows:
            chunk = await asyncio.to_thread(source.take)
            if not chunk:
                cell.broken = "there are fewer than were counted"
            known = self._rows.known([row.key for row in chunk])
            for number, row in enumerate(chunk):
                if len(filling.pack.rows) == part.rows or cell.broken:
                    source.put_back(chunk[number:])
                    break
                if not cell.has(row):
                    source.set_aside(row)
                elif cell.is_beyond(row):
                    cell.broken = "one can cost more than was expected of any"
                    source.set_aside(row)
                elif not filling.pack.has_room_for(row, self._room(model)):
                    cell.broken = "a batch has no room for so many"
                    source.set_aside(row)
                else:
                    self._counters.offered[row.shard] += 1
                    if self._rows.joins(row, known):
                        cell.broken = "some are in another batch"
                        continue
                    filling.pack.add(row)
                    self._rows.pack(row, filling.batch)
                    wave.keys.append(row.key)
        while filling.pack.rows and not stopping.is_set():
            filling = await self._submit_pack(filling)


def _next(waves: Iterator[Wave]) -> Wave | None:
    return next(waves, None)
