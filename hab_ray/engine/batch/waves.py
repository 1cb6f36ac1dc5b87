"""The rows of one stage and model that go out in waves, each reserving what the ones before say that it costs at most.

The rows known when the first wave goes out, in their random order, are the population; a wave is what comes next in
that order, and a later one is made only when every row of the earlier ones is accounted for. Rows that are not of the
population, and all rows once anything breaks the sample, are left to the caller, who sets aside the most that they can
cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from hab_ray.engine.batch.in_flight import BatchInFlight
from hab_ray.engine.batch.packing import Pack, PackedRow
from hab_ray.engine.budget.bound import FIRST_WAVE, LEAST_WAVE, CostSample, Wave


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


@dataclass
class WaveUnderWay:
    """A wave that is being sent: `nanousd` of what was set aside for it is not in a batch yet.

    `keys` are its rows as they were packed, `opened` the batches made of them, `failed` the rows that no batch takes.
    """

    nanousd: int
    keys: list[str] = field(default_factory=list)
    opened: list[BatchInFlight] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)

    def has_funded(self, pack: Pack) -> bool:
        """Take what a pack reserves out of what is set aside in advance, if that is enough."""
        if pack.bound is None or pack.nanousd > self.nanousd:
            return False
        self.nanousd -= pack.nanousd
        return True


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
