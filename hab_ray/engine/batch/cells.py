"""The rows of one stage and model that are sent in waves, and their progress, including earlier processes.

The rows known when the first wave is sent form the population, in random order; each wave takes the next rows in that
order. Costs of rows are read from the store. So a new process continues where the previous one stopped, if exactly the
rest of the population is still to be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from hab_ray.catalog.prices import Price
from hab_ray.engine.batch.packing import PackedRow
from hab_ray.engine.budget.bound import FIRST_WAVE, LEAST_WAVE, CostSample, Wave
from hab_ray.errors import FailureKind
from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.store import Store


@dataclass(frozen=True)
class Progress:
    """Progress of a population: its keys in order, the costs of the first rows, and how many rows were sent.

    The keys between the number of `costs` and `sent` are the wave in progress. A batch holds at most `largest` rows.
    The probability that any batch of these rows costs more than its reservation is at most `share` of the run's risk.
    """

    keys: tuple[str, ...]
    largest: int
    share: float
    costs: tuple[int, ...] = ()
    sent: int = 0

    @property
    def under_way(self) -> Sequence[str]:
        """The keys of the last wave, whose costs are not known yet."""
        return self.keys[len(self.costs) : self.sent]

    def resumed(self, unsent: Sequence[str], largest: int, share: float) -> Progress | None:
        """Return the progress with which these keys, in this order, are sent.

        It is the same one if they are the rest of the population from the end of the last wave, or of a batch of it.
        Else those after that wave become a new population: why others are missing has nothing to do with their places
        in the order. None if there are none.
        """
        first = self.first_unsent(unsent)
        if self.largest == largest and first is not None:
            return replace(self, sent=first) if first == len(self.costs) else self
        later = set(self.keys[self.sent :])
        rest = tuple(key for key in unsent if key in later)
        return Progress(rest, largest, share) if rest else None

    def first_unsent(self, unsent: Sequence[str]) -> int | None:
        """Return where these keys begin in the order, whatever rows of earlier waves came back.

        None if they are not the rest of the population from the end of the last wave, or of a batch of it.
        """
        seen = set(self.keys[: len(self.costs)])
        rest = tuple(key for key in unsent if key not in seen)
        first = len(self.keys) - len(rest)
        batches = range(len(self.costs), self.sent, max(1, self.largest))
        return first if (first in batches or first == self.sent) and rest == self.keys[first:] else None


@dataclass(frozen=True)
class Cell:
    """Rows of a stage and model in random order: their keys, and the most that one row is expected to cost at a price.

    A line is expected to have at most `line_bytes`. `risk` is the run's; a population that starts now may take `share`
    of it. `keep` stores progress durably; `before` is the progress that an earlier process kept.
    """

    keys: Sequence[str]
    cap: int
    price: Price
    line_bytes: int
    risk: float
    share: float
    keep: Callable[[Progress], None]
    before: Progress | None = None


class WavesOfCell:
    """The waves of one cell, whose `unsent` keys may be sent now, at most `largest` in a batch.

    `broken` is the reason why no further wave may be sent, "" while waves may be.
    """

    def __init__(self, cell: Cell, unsent: Sequence[str], largest: int) -> None:
        self._cell, self.broken = cell, ""
        self._store: Store | None = None
        progress: Progress | None = Progress(tuple(unsent), largest, cell.share)
        if cell.before:
            progress = cell.before.resumed(unsent, largest, cell.share)
        self._progress = progress or Progress((), largest, cell.share)
        self._next = self._progress.first_unsent(unsent) or 0
        self._sample = _sample(cell, self._progress)
        self._add(self._progress.costs)

    @property
    def is_open(self) -> bool:
        return bool(self._sample and self._sample.to_come and not self.broken)

    @property
    def under_way(self) -> Sequence[str]:
        return self._progress.under_way

    @property
    def is_last(self) -> bool:
        """Whether the latest wave holds the last rows, so that no later wave needs a bound from its costs."""
        return self._progress.sent == len(self._progress.keys)

    @property
    def is_unfinished(self) -> bool:
        """Whether an earlier process ended before it had sent all batches of a wave."""
        return self._next < self._progress.sent

    def waves(self) -> Iterator[Wave]:
        """Yield the waves that may come next, the largest first. The first wave holds all rows or a few hundred.

        The rest of an unfinished wave comes before all others, with the bounds of its batches as they were.
        """
        if self._sample is None:
            return
        if self.is_unfinished:
            sent = (self._next - self._sample.seen) // self._progress.largest
            yield Wave(self._sample.wave(len(self.under_way)).parts[sent:])
            return
        for wave in self._sample.waves():
            if self._sample.seen or wave.rows in (self._sample.to_come, FIRST_WAVE, LEAST_WAVE):
                yield wave

    def begin(self, wave: Wave) -> None:
        """Record durably that a wave is about to be sent."""
        self._progress = replace(self._progress, sent=self._next + wave.rows)
        self._cell.keep(self._progress)

    def take_if_next(self, row: PackedRow) -> bool:
        """Advance past a row if it is the next one of the population; return whether it was."""
        if self._next >= len(self._progress.keys) or row.key != self._progress.keys[self._next]:
            return False
        self._next += 1
        return True

    def exceeds_cap(self, row: PackedRow) -> bool:
        """Return whether a row can cost more than expected of any row."""
        return row.nanousd > self._cell.cap

    def observe(self, folder: Folder, model: str) -> None:
        """Add the costs of the wave in progress, once its batches are closed and their results in the store.

        A row without a result, such as an expired one, counts at the cap: it may be answered, and billed, when it is
        sent again.
        """
        self._store = store = self._store or Store(folder)
        store.refresh(model)
        if any(one.kind is FailureKind.WITHHELD for one in store.failures(model, self.under_way).values()):
            self.broken = "the vendor did not show all of their results"
            return
        found = store.costs(model, self.under_way)
        costs = [found.get(key, self._cell.cap) for key in self.under_way]
        self._progress = replace(self._progress, costs=(*self._progress.costs, *costs))
        self._add(costs)

    def _add(self, costs: Sequence[int]) -> None:
        if max(costs, default=0) > self._cell.cap:
            self.broken = "one of them cost more than a row was expected to cost at most"
        elif self._sample:
            self._sample.add(costs)


def _sample(cell: Cell, progress: Progress) -> CostSample | None:
    """Return the sample of a population; None if it is too small, or was left at a point where no wave may end."""
    rows = len(progress.keys)
    if rows <= FIRST_WAVE or cell.cap <= 0:
        return None
    sample = CostSample(rows, cell.cap, cell.risk * progress.share, progress.largest)
    return sample if {len(progress.costs), progress.sent} <= {0, *sample.ends} else None
