"""What the rest of a population costs at most, told from a random sample of it.

Rows are drawn one by one, in an order that is as random as a shuffle. Each costs between nothing and `cap`. The bound
is that of Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2023), for draws without
replacement: suppose that all rows up to some end cost T together. Then the mean of those still to be drawn is known
before each draw, and nobody can win on average by betting that the next one costs less:

    m_t = (T - cost so far) / (rows left)        wealth = product over t of 1 + share * (m_t - x_t) / (cap - m_t)

A true T lets the wealth ever reach 1/risk with probability `risk` at most, however often one looks (Ville's
inequality). So every T at which it does is refuted; the wealth grows with T, and the smallest such T is the bound.
Several shares are bet at once, each with an equal part of the first dollar: one of them is near the best.

The rows seen and any others, chosen by nothing but their places in the order, are themselves a population in random
order: so each batch of a wave has a bound of its own, which holds whatever others cost and whether or not they are
sent. All places at which a wave may begin or end are named beforehand, and the risk is split over all batches that
there might be: whichever are chosen for whatever reason, their bounds hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

FIRST_WAVE = 200
LEAST_WAVE = 100
_STEP = 4 / 3
_SHARES = np.array([0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.995])
_TOLERANCE = 1e-3
_FACTORS = 8  # so few of them are multiplied without overflow
_BLOCK = 4096 * _FACTORS

Costs = NDArray[np.float64]


@dataclass(frozen=True)
class WavePart:
    """A batch of a wave: so many rows, which cost `nanousd` at most together."""

    rows: int
    nanousd: int


@dataclass(frozen=True)
class Wave:
    """What may be sent at once: the next rows, batch by batch."""

    parts: tuple[WavePart, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def nanousd(self) -> int:
        """What is to be set aside for it."""
        return sum(part.nanousd for part in self.parts)


class CostSample:
    """The costs of the first rows of a population of `rows`, in the order drawn, and what others cost at most.

    With probability 1 - `risk` none of all bounds is ever exceeded. A batch holds `largest` rows at most. `cap` is the
    most that one row can cost, in nano-dollars as all amounts.

    Own code, because confseq, the paper's, has no release since January 2023, builds only with a C++ compiler and
    Boost, and tells means to a thousandth of the cap.
    """

    def __init__(self, rows: int, cap: int, risk: float, largest: int) -> None:
        if rows < 1 or cap < 1 or largest < 1 or not 0 < risk < 1:
            raise ValueError(f"no sample of {rows} rows, each up to {cap}, has a bound at a risk of {risk}")
        self._rows, self._cap, self._largest = rows, cap, largest
        self.ends = _ends(rows)
        self.batches = len(self.ends) * (len(self.ends) + rows // largest)
        self._needed = log(self.batches / risk) + log(len(_SHARES))
        self._blocks: list[Costs] = []
        self._bounds: dict[int, int] = {}
        self.seen = 0

    @property
    def to_come(self) -> int:
        """The rows that were not drawn yet."""
        return self._rows - self.seen

    def add(self, costs: Iterable[int]) -> None:
        """Take in the costs of the next rows, in the order drawn.

        Raises:
            ValueError: one is below 0 or above the cap, or there are more rows than the population has.
        """
        block = np.fromiter(costs, dtype=np.float64) / self._cap
        if self.seen + len(block) > self._rows or (len(block) and not 0 <= block.min() <= block.max() <= 1):
            raise ValueError("these costs are not those of rows of the population")
        self._blocks.append(block)
        self._bounds = {}
        self.seen += len(block)

    def waves(self) -> Iterator[Wave]:
        """The waves that may come next, the largest first."""
        yield from (self._wave(end - self.seen) for end in reversed(self.ends) if end > self.seen)

    def largest_wave(self, nanousd: int, most_rows: int) -> Wave | None:
        """The largest wave of so many rows at most for which so much is enough; None where it is for none."""
        ends = [end for end in self.ends if end > self.seen]
        ends = [end for end in ends if end - self.seen <= most_rows] or ends[:1]
        found = None
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high) // 2
            wave = self._wave(ends[middle] - self.seen)
            if wave.nanousd <= nanousd:
                found, low = wave, middle + 1
            else:
                high = middle
        return found

    def _wave(self, rows: int) -> Wave:
        whole, rest = divmod(rows, self._largest)
        sizes = [self._largest] * whole + [rest] * (rest > 0)
        return Wave(tuple(WavePart(size, self.bound(size)) for size in sizes))

    def bound(self, to_come: int) -> int:
        """The most that so many of the rows to come cost together.

        Raises:
            ValueError: the rows seen do not end where a wave may.
        """
        if self.seen not in (0, *self.ends):
            raise ValueError(f"{self.seen} rows were seen, and no wave ends there")
        if to_come not in self._bounds:
            self._bounds[to_come] = self._bound(to_come)
        return self._bounds[to_come]

    def _bound(self, to_come: int) -> int:
        costs = np.concatenate([*self._blocks, np.empty(0)])
        before = np.concatenate([[0.0], np.cumsum(costs)])
        left = len(costs) + to_come - np.arange(len(costs), dtype=np.float64)

        def is_refuted(mean: float) -> bool:
            means = np.minimum((before[-1] - before[:-1] + to_come * mean) / left, 1 - 1e-12)
            odds = (means - costs) / (1 - means)
            return bool(_log_sum(_growth(odds)) >= self._needed)

        low, high = 0.0, 1.0
        if not len(costs) or not is_refuted(1 - 1e-9):
            return to_come * self._cap
        while high - low > _TOLERANCE * high:
            middle = (low + high) / 2
            low, high = (low, middle) if is_refuted(middle) else (middle, high)
        return min(ceil(high * to_come * self._cap), to_come * self._cap)


def _growth(odds: Costs) -> Costs:
    """The logarithm of what each share's first dollar has become."""
    grown = np.zeros(len(_SHARES))
    for start in range(0, len(odds), _BLOCK):
        block = odds[start : start + _BLOCK]
        padded = np.zeros((-(-len(block) // _FACTORS), _FACTORS))
        padded.flat[: len(block)] = block
        grown += [float(np.log((1 + share * padded).prod(axis=1)).sum()) for share in _SHARES]
    return grown


def _log_sum(logs: Costs) -> float:
    most = float(logs.max())
    return most + float(np.log(np.exp(logs - most).sum()))


def _ends(rows: int) -> Sequence[int]:
    """Where a wave may end: geometric, at least `LEAST_WAVE` from each other and from the last row."""
    ends, end = [], LEAST_WAVE
    while end <= rows - LEAST_WAVE:
        ends.append(end)
        end = max(end + LEAST_WAVE, ceil(end * _STEP))
    return (*ends, rows)
