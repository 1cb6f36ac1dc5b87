"""The rows of one stage and model that are sent in waves, and their progress, including earlier processes.

The rows known when the first wave is sent form the population, in random order; each wave takes the next rows in that
order. Costs of rows are read from the store. So a new process continues where the previous one stopped, if exactly the
rest of the population is still to be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from hab_ray.engine.batch.packing import PackedRow
from hab_ray.engine.budget.bound import FIRST_WAVE, LEAST_WAVE, CostSample, Wave
from hab_ray.errors import FailureKind
from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.store import Store

_READ_AT_ONCE = 1024


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
        """Return the progress if these keys, in this order, are still to be sent.

        If only part of the last wave was sent, the rows after it become a new population. None if the remaining rows
        were not left by chance alone, so that they are no random sample.
        """
        seen = set(self.keys[: len(self.costs)])
        unsent = tuple(key for key in unsent if key not in seen)
        for sent in (self.sent, len(self.costs)):
            if self.largest == largest and unsent == self.keys[sent:]:
                return replace(self, sent=sent)
        rest = self.keys[self.sent :]
        if rest and unsent[-len(rest) :] == rest and set(unsent).issubset(self.keys):
            return Progress(rest, largest, share)
        return None


@dataclass(frozen=True)
class Cell:
    """Rows of a stage and model in random order: their keys, and the most that one row is expected to cost.

    A line is expected to have at most `line_bytes`. `risk` is the run's; a population that starts now may take `share`
    of it. `keep` stores progress durably; `before` is the progress that an earlier process kept.
    """

    keys: Sequence[str]
    cap: int
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
        progress: Progress | None = Progress(tuple(unsent), largest, cell.share)
        if cell.before:
            progress = cell.before.resumed(unsent, largest, cell.share)
        self._progress = progress or Progress((), largest, cell.share)
        self._next = self._progress.sent
        self._sample = _sample(cell, self._progress)
        self._add(self._progress.costs)

    @property
    def is_open(self) -> bool:
        return bool(self._sample and self._sample.to_come and not self.broken)

    @property
    def under_way(self) -> Sequence[str]:
        return self._progress.under_way

    def waves(self) -> Iterator[Wave]:
        """Yield the waves that may come next, the largest first. The first wave holds all rows or a few hundred."""
        if self._sample is None:
            return
        for wave in self._sample.waves():
            if self._sample.seen or wave.rows in (self._sample.to_come, FIRST_WAVE, LEAST_WAVE):
                yield wave

    def begin(self, wave: Wave) -> None:
        """Record durably that a wave is about to be sent."""
        self._progress = replace(self._progress, sent=self._progress.sent + wave.rows)
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
        costs: list[int] = []
        store = Store(folder)
        store.refresh(model)
        for start in range(0, len(self.under_way), _READ_AT_ONCE):
            keys = self.under_way[start : start + _READ_AT_ONCE]
            found = store.costs(model, keys)
            if any(failure.kind is FailureKind.WITHHELD for failure in store.failures(model, keys).values()):
                self.broken = "the vendor did not show all of their results"
                return
            costs += [found.get(key, self._cell.cap) for key in keys]
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
