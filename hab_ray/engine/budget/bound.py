"""What the rest of a population costs at most, told from a random sample of it.

Rows are drawn one by one, in an order that is as random as a shuffle. Each costs between nothing and `cap`. The bound
is that of Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2023), for draws without
replacement: suppose that all rows up to some end cost T together. Then the mean of those still to be drawn is known
before each draw, and nobody can win on average by betting that the next one costs less:

    m_t = (T - cost so far) / (rows left)        wealth = product over t of 1 + share * (m_t - x_t) / (cap - m_t)

A true T lets the wealth ever reach 1/risk with probability `risk` at most, however often one looks (Ville's
inequality). So every T at which it does is refuted; the wealth grows with T, and the smallest such T is the bound.
Several shares are bet at once, each with an equal part of the first dollar: one of them is near the best.

The rows up to an end are themselves a population in random order. All ends that a wave may have are named beforehand,
and the risk is split over them, so that whichever is chosen for whatever reason, its bound holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


class CostSample:
    """The costs of the first rows of a population of `rows`, in the order drawn, and what the next ones cost at most.

    With probability 1 - `risk` none of all bounds is ever exceeded. `cap` is the most that one row can cost, in
    nano-dollars as all amounts. Own code, because confseq, the paper's, has no release since January 2023, builds only
    with a C++ compiler and Boost, and tells means to a thousandth of the cap.
    """

    def __init__(self, rows: int, cap: int, risk: float) -> None:
        if rows < 1 or cap < 1 or not 0 < risk < 1:
            raise ValueError(f"no sample of {rows} rows, each up to {cap}, has a bound at a risk of {risk}")
        self._rows, self._cap = rows, cap
        self.ends = _ends(rows)
        among = 2 * max(1, len(self.ends) - 1)
        self._needed = {end: log(among / risk) for end in self.ends} | {rows: log(2 / risk)}
        self._blocks: list[Costs] = []
        self.seen = 0

    def add(self, costs: Iterable[int]) -> None:
        """Take in the costs of the next rows, in the order drawn.

        Raises:
            ValueError: one is below 0 or above the cap, or there are more rows than the population has.
        """
        block = np.fromiter(costs, dtype=np.float64) / self._cap
        if self.seen + len(block) > self._rows or (len(block) and not 0 <= block.min() <= block.max() <= 1):
            raise ValueError("these costs are not those of rows of the population")
        self._blocks.append(block)
        self.seen += len(block)

    def bound(self, end: int) -> int:
        """The most that the rows after those seen cost together, up to one of `ends`."""
        to_come = end - self.seen
        if to_come <= 0:
            return 0
        costs = np.concatenate([*self._blocks, np.empty(0)])
        before = np.concatenate([[0.0], np.cumsum(costs)])
        left = end - np.arange(len(costs), dtype=np.float64)
        needed = self._needed[end] + log(len(_SHARES))

        def is_refuted(mean: float) -> bool:
            means = np.minimum((before[-1] - before[:-1] + to_come * mean) / left, 1 - 1e-12)
            odds = (means - costs) / (1 - means)
            return bool(_log_sum(_growth(odds)) >= needed)

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
    ends, end = [], FIRST_WAVE
    while end <= rows - LEAST_WAVE:
        ends.append(end)
        end = max(end + LEAST_WAVE, ceil(end * _STEP))
    return (*ends, rows)


def waves(sample: CostSample) -> Iterator[tuple[int, int]]:
    """The waves that may come next, the largest first: how many rows, and what they cost at most together."""
    for end in reversed(sample.ends):
        if end > sample.seen:
            yield end - sample.seen, sample.bound(end)
