"""The rows of one stage and model that go out in waves, each reserving what the ones before say that it costs at most.

The rows known when the first wave goes out, in their random order, are the population; a wave is what comes next in
that order, and a later one is made only when every row of the earlier ones is accounted for. Rows that are not of the
population, and all rows once anything breaks the sample, are left to the caller, who sets aside the most that they can
cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.packing import PackedRow, Room
from hab_ray.engine.batch.rows import BatchInFlight, WaveUnderWay
from hab_ray.engine.budget.bound import FIRST_WAVE, LEAST_WAVE, CostSample, Wave, WavePart
from hab_ray.engine.tokens import estimated_input_tokens

LOOK_S = 0.2
MONEY_S = 1.0


@dataclass(frozen=True)
class Cell:
    """Rows of a stage and model that come in a random order: their keys, and the most that one is expected to cost.

    A line is expected to have `line_bytes` at most. The probability that a batch of these rows costs more than is set
    aside for it is `risk` at most, all batches together.
    """

    keys: Sequence[str]
    cap: int
    line_bytes: int
    risk: float


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


class WavesOfCell:
    """What is known of the costs of one cell. `outside` are keys that are in a batch, answered or were sent before.

    A batch holds `largest` rows at most. Once it is `broken`, for the reason given, no further wave goes out.
    """

    def __init__(self, cell: Cell, outside: Collection[str], largest: int) -> None:
        self._outside = frozenset(outside)
        self._cell, self._last = cell, ""
        rows = len(set(cell.keys) - self._outside)
        is_sampled = rows > FIRST_WAVE and cell.cap > 0
        self._sample = CostSample(rows, cell.cap, cell.risk, largest) if is_sampled else None
        self.broken = ""

    @property
    def is_open(self) -> bool:
        """Whether a further wave may go out."""
        return bool(self._sample and self._sample.to_come and not self.broken)

    def waves(self) -> Iterator[Wave]:
        """The waves that may come next, the largest first; the first one is small where not all can be paid for."""
        if self._sample is None:
            return
        for wave in self._sample.waves():
            if self._sample.seen or wave.rows in (self._sample.to_come, FIRST_WAVE, LEAST_WAVE):
                yield wave

    def has(self, row: PackedRow) -> bool:
        """Whether a row is the next of the population; a repeated key is not."""
        if row.key in self._outside or row.key == self._last:
            return False
        self._last = row.key
        return True

    def is_beyond(self, row: PackedRow) -> bool:
        """Whether a row can cost more than any was expected to."""
        return row.nanousd > self._cell.cap

    def observe(self, wave: WaveUnderWay) -> None:
        """Take in what a wave has cost, once its batches are closed.

        A row that brought nothing, such as one that expired, may bring something when it is asked again, and an outage
        is no property of a row: it counts as the dearest.
        """
        found = dict.fromkeys(wave.failed, 0)
        for batch in wave.opened:
            if batch.results is None or batch.results.costs is None:
                self.broken = "the vendor did not show what all of them brought"
                return
            found |= batch.results.costs
        costs = [found.get(key, self._cell.cap) for key in wave.keys]
        if max(costs, default=0) > self._cell.cap:
            self.broken = "one of them cost more than a row can cost"
        elif self._sample:
            self._sample.add(costs)


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
        tokens = room.tokens // max(1, estimated_input_tokens(cell.line_bytes))
        largest = min(room.rows, room.bytes // (cell.line_bytes + 1), tokens)
        return WavesOfCell(cell, self._rows.sent(list(cell.keys)), max(1, int(largest)))

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
                    wave.keys.append(row.key)
        await self._submit_all(batch)


def _next(waves: Iterator[Wave]) -> Wave | None:
    return next(waves, None)
