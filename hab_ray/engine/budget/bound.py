"""An upper confidence bound on the cost of the rest of a population, computed from a random sample of it.

Rows are drawn without replacement, in shuffled order; each costs between 0 and `cap`. The bound is that of Waudby-Smith
and Ramdas, "Estimating means of bounded random variables by betting" (2023). Suppose that all rows up to some end cost
T in total. Then the mean of the rows still to be drawn is known before each draw, and betting that the next row costs
less than that mean wins nothing in expectation:

    m_t = (T - cost so far) / (rows left)        wealth = product over t of 1 + share * (m_t - x_t) / (cap - m_t)

If T is the true total, the wealth ever reaches 1/risk with probability at most `risk`, however often one looks (Ville's
inequality). So every T for which it does is rejected; the wealth grows with T, and the smallest rejected T is the
bound. Several shares are bet at once, each with an equal part of the first dollar: one of them is near optimal.

The rows seen, together with any others chosen only by position in the order, are again a population in random order.
So each batch of a wave has its own bound, which holds whatever other batches cost and whether or not they are sent. All
positions where a wave may begin or end are fixed in advance, and the risk is split over all possible batches: the
bounds hold for whichever batches are chosen, for whatever reason.
"""

from bisect import bisect_right
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
_FACTORS = 8  # the product of this many factors cannot overflow
_BLOCK = 4096 * _FACTORS

Costs = NDArray[np.float64]


@dataclass(frozen=True)
class WavePart:
    """A batch of a wave: its number of rows, and an upper bound of their total cost."""

    rows: int
    nanousd: int


@dataclass(frozen=True)
class Wave:
    """The next rows that may be sent at once, batch by batch."""

    parts: tuple[WavePart, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def nanousd(self) -> int:
        """The money to reserve for the wave."""
        return sum(part.nanousd for part in self.parts)


class CostSample:
    """The costs of the first rows of a population of `rows`, in the order drawn, and bounds on the cost of the others.

    With probability 1 - `risk`, none of the bounds is ever exceeded. A batch holds at most `largest` rows. `cap` is
    the most that one row can cost. Amounts are nano-dollars.

    Not built on confseq, the paper's own library: it has had no release since January 2023, needs a C++ compiler and
    Boost, and resolves means only to a thousandth of the cap.
    """

    def __init__(self, rows: int, cap: int, risk: float, largest: int) -> None:
        if rows < 1 or cap < 1 or largest < 1 or not 0 < risk < 1:
            raise ValueError(f"no bound for {rows} rows of up to {cap} each, in batches of {largest}, at risk {risk}")
        self._rows, self._cap, self._largest = rows, cap, largest
        self.ends = _ends(rows)
        self.batches = len(self.ends) * (len(self.ends) + rows // largest)
        self._needed = log(self.batches / risk) + log(len(_SHARES))
        self._blocks: list[Costs] = []
        self._bounds: dict[int, int] = {}
        self.seen = 0

    @property
    def to_come(self) -> int:
        """The number of rows not drawn yet."""
        return self._rows - self.seen

    def add(self, costs: Iterable[int]) -> None:
        """Add the costs of the next rows, in the order drawn.

        Raises:
            ValueError: a cost is below 0 or above the cap, or there are more rows than the population has.
        """
        block = np.fromiter(costs, dtype=np.float64) / self._cap
        if self.seen + len(block) > self._rows or (len(block) and not 0 <= block.min() <= block.max() <= 1):
            raise ValueError("these cannot be costs of rows of the population")
        self._blocks.append(block)
        self._bounds = {}
        self.seen += len(block)

    def waves(self) -> Iterator[Wave]:
        """Yield the waves that may come next, the largest first."""
        yield from (self.wave(end - self.seen) for end in reversed(self.ends) if end > self.seen)

    def largest_wave(self, nanousd: int, most_rows: int) -> Wave | None:
        """Return the largest wave of at most `most_rows` that `nanousd` pays for; None if it pays for none."""
        ends = [end for end in self.ends if end > self.seen]
        ends = [end for end in ends if end - self.seen <= most_rows] or ends[:1]
        affordable = bisect_right(ends, nanousd, key=lambda end: self.wave(end - self.seen).nanousd)
        return self.wave(ends[affordable - 1] - self.seen) if affordable else None

    def wave(self, rows: int) -> Wave:
        """Return the wave of the next rows, which must end where a wave may end."""
        whole, rest = divmod(rows, self._largest)
        sizes = [self._largest] * whole + [rest] * (rest > 0)
        return Wave(tuple(WavePart(size, self.bound(size)) for size in sizes))

    def bound(self, to_come: int) -> int:
        """Return an upper bound of the total cost of this many of the rows to come.

        Raises:
            ValueError: the rows seen do not end where a wave may end.
        """
        if self.seen not in (0, *self.ends):
            raise ValueError(f"{self.seen} rows were seen, and no wave may end there")
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
    """Return the logarithm of each share's wealth, which starts at one dollar."""
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
    """Return where a wave may end: geometrically spaced, at least `LEAST_WAVE` apart and before the last row."""
    ends, end = [], LEAST_WAVE
    while end <= rows - LEAST_WAVE:
        ends.append(end)
        end = max(end + LEAST_WAVE, ceil(end * _STEP))
    return (*ends, rows)
