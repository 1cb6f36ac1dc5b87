"""The rows of one stage and model that go out in waves, and how far they have come, also in earlier processes.

The rows known when the first wave goes out, in their random order, are the population; a wave is what comes next in
that order. What rows have cost is read from the store. So a process that takes the place of another goes on where that
one was, if it finds exactly the rest of the population still to be sent.
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
    """How far a population has come: its keys in their order, what the first ones have cost, how many were sent.

    The keys from `costs` to `sent` are the wave under way. A batch holds `largest` rows at most. The probability that a
    batch of these rows costs more than is set aside for it is `share` of the run's risk at most, all together.
    """

    keys: tuple[str, ...]
    largest: int
    share: float
    costs: tuple[int, ...] = ()
    sent: int = 0

    @property
    def under_way(self) -> Sequence[str]:
        """The rows that were sent last, of which it is not known what they have cost."""
        return self.keys[len(self.costs) : self.sent]

    def resumed(self, unsent: Sequence[str], largest: int, share: float) -> Progress | None:
        """How far it has come where these keys, in their order, are still to be sent.

        Where part of the last wave did not go out, the rows after it are a population of their own. None where it is
        not known of all others that chance alone has left them for the end.
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
    """Rows of a stage and model that come in a random order: their keys, and the most that one is expected to cost.

    A line is expected to have `line_bytes` at most. `risk` is the run's, `share` the part of it that a population which
    begins now may take. `before` is what an earlier process has kept of these rows' population by `keep`.
    """

    keys: Sequence[str]
    cap: int
    line_bytes: int
    risk: float
    share: float
    keep: Callable[[Progress], None]
    before: Progress | None = None


class WavesOfCell:
    """What is known of the costs of one cell, of which `unsent` may go out now, `largest` at most in a batch.

    Once it is `broken`, for the reason given, no further wave goes out.
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
        """The waves that may come next, the largest first; the first one is small where not all can be paid for."""
        if self._sample is None:
            return
        for wave in self._sample.waves():
            if self._sample.seen or wave.rows in (self._sample.to_come, FIRST_WAVE, LEAST_WAVE):
                yield wave

    def begin(self, wave: Wave) -> None:
        """Note durably that a wave goes out, before anything of it does."""
        self._progress = replace(self._progress, sent=self._progress.sent + wave.rows)
        self._cell.keep(self._progress)

    def has(self, row: PackedRow) -> bool:
        """Whether a row is the next of the population."""
        if self._next >= len(self._progress.keys) or row.key != self._progress.keys[self._next]:
            return False
        self._next += 1
        return True

    def is_beyond(self, row: PackedRow) -> bool:
        """Whether a row can cost more than any was expected to."""
        return row.nanousd > self._cell.cap

    def observe(self, folder: Folder, model: str) -> None:
        """Take in what the wave under way has cost, once its batches are closed and their results in the store.

        A row that brought nothing, such as one that expired, may bring something when it is asked again, and an outage
        is no property of a row: it counts as the dearest.
        """
        costs: list[int] = []
        store = Store(folder)
        store.refresh(model)
        for start in range(0, len(self.under_way), _READ_AT_ONCE):
            keys = self.under_way[start : start + _READ_AT_ONCE]
            found = store.costs(model, keys)
            if any(failure.kind is FailureKind.WITHHELD for failure in store.failures(model, keys).values()):
                self.broken = "the vendor did not show what all of them brought"
                return
            costs += [found.get(key, self._cell.cap) for key in keys]
        self._progress = replace(self._progress, costs=(*self._progress.costs, *costs))
        self._add(costs)

    def _add(self, costs: Sequence[int]) -> None:
        if max(costs, default=0) > self._cell.cap:
            self.broken = "one of them cost more than a row can cost"
        elif self._sample:
            self._sample.add(costs)


def _sample(cell: Cell, progress: Progress) -> CostSample | None:
    """The sample of a population; None where it is too small for one, or has come to where no wave ends."""
    rows = len(progress.keys)
    if rows <= FIRST_WAVE or cell.cap <= 0:
        return None
    sample = CostSample(rows, cell.cap, cell.risk * progress.share, progress.largest)
    return sample if {len(progress.costs), progress.sent} <= {0, *sample.ends} else None
