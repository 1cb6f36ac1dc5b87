"""Means and intervals of planted marks: fractions, and quadratures other than those under test."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isclose, sqrt
from statistics import mean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import bisect
from scipy.special import betaincinv

_OUTSIDE = 0.05
# Far above what floats lose, far below what a point in one of 10,000 rows makes.
_ROUNDING = 1e-9
# Logarithms of frequencies, from where the transform is 1 to where that of three values has died out.
_LOGS = np.arange(-27.0, 20.0, 0.05)
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """A mean with its 95 % interval, over `n` answers; what does not exist is None."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Checked:
    """How many of some kind were looked at, and what of them is not as it must be."""

    compared: int = 0
    wrong: tuple[str, ...] = ()


NOTHING = Checked()


class Item(NamedTuple):
    """The mean mark of a test, of how many answers, and the generation call of the test."""

    mark: Fraction
    answers: int
    call: str


def figures_of(items: Sequence[Item], least: int = 0) -> Figures:
    """The mean of marks from `least` to 1: at each end the wider of Student's t by call and Gaffke's bound."""
    size, answers = len(items), sum(item.answers for item in items)
    if not size:
        return Figures(None, None, None, 0)
    middle = mean(item.mark for item in items)
    if size == 1:
        return Figures(float(middle), None, None, answers)
    by_call: dict[str, Fraction] = defaultdict(Fraction)
    for item in items:
        by_call[item.call] += item.mark - middle
    reach, wide = 2.0, 1 - least
    if (groups := len(by_call)) > 1:
        squares = sum((each * each for each in by_call.values()), Fraction(0))
        reach = students_t(groups - 1) * sqrt(Fraction(groups, groups - 1) * squares) / size
    marks = Counter((item.mark - least) / wide for item in items)
    below = 1 - gaffke_bound(Counter({1 - mark: count for mark, count in marks.items()}))
    low = min(float(middle) - reach, least + wide * below)
    high = max(float(middle) + reach, least + wide * gaffke_bound(marks))
    return Figures(float(middle), max(float(least), low), min(1.0, high), answers)


def mean_of(parts: Sequence[Figures]) -> Figures:
    """The plain mean of the dimensions' means, the distances of its ends added in squares."""
    answers, means = sum(part.n for part in parts), [part.mean for part in parts if part.mean is not None]
    if not means or len(means) < len(parts):
        return Figures(None, None, None, answers)
    middle, below, above = sum(means) / len(parts), 0.0, 0.0
    for part in parts:
        if part.mean is None or part.low is None or part.high is None:
            return Figures(middle, None, None, answers)
        below, above = below + (part.mean - part.low) ** 2, above + (part.high - part.mean) ** 2
    return Figures(middle, middle - sqrt(below) / len(parts), middle + sqrt(above) / len(parts), answers)


def same(found: float | None, wanted: float | Fraction | None, rounding: float = _ROUNDING) -> bool:
    """Whether both are one number up to rounding, or both are none."""
    if found is None or wanted is None:
        return found is wanted
    return isclose(found, float(wanted), rel_tol=0, abs_tol=rounding)


def all_same(
    found: Sequence[float | None], wanted: Sequence[float | Fraction | None], rounding: float = _ROUNDING
) -> bool:
    """Whether numbers are the same, each at its place."""
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(same(one, other, rounding) for one, other in pairs)


def students_t(freedom: float) -> float:
    """The distance that Student's t exceeds, to either side, in one case of twenty: by the incomplete beta function."""
    share = float(betaincinv(freedom / 2, 0.5, _OUTSIDE))
    return sqrt(freedom * (1 - share) / share)


def gaffke_bound(marks: Counter[Fraction]) -> float:
    """The upper end of Gaffke's interval, by Gil-Pelaez' integral along the real line."""
    return _bound(tuple(sorted(marks.items())))


@lru_cache(maxsize=10_000)
def _bound(marks: tuple[tuple[Fraction, int], ...]) -> float:
    if marks[0][0] == 1:
        return 1.0
    values = np.array([float(mark) for mark, _ in marks] + [1.0])
    counts = np.array([float(count) for _, count in marks] + [1.0])
    ends = float(values.min()) + 1e-12, 1 - 1e-12
    return float(bisect(lambda end: _above(values - end, counts) - _OUTSIDE / 2, *ends, xtol=1e-12))


def _above(steps: _Array, counts: _Array) -> float:
    """The chance that the mean of values under weights uniform on the simplex exceeds what was taken from `steps`."""
    frequencies = np.exp(_LOGS)
    turned = np.outer(steps, frequencies)
    sizes = counts @ (-0.5 * np.log1p(turned * turned))
    angles = counts @ np.arctan(turned)
    return float(0.5 + (np.exp(sizes) * np.sin(angles)).sum() * (_LOGS[1] - _LOGS[0]) / np.pi)
