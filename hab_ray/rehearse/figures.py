"""Means and intervals of planted marks, in fractions and with other quadratures than the code under test."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
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
# Far above float rounding, far below the effect of one point in one of 10,000 rows.
_ROUNDING = 1e-9
# Logarithms of frequencies, from where the transform is 1 to where that of three values has vanished.
_LOGS = np.arange(-27.0, 20.0, 0.05)
_Array = NDArray[np.float64]
Numbers = Sequence[float | Fraction | None]
Lines = dict[tuple[str, ...], Numbers]


@dataclass(frozen=True)
class Figures:
    """A mean over `n` answers with its 95 % interval; None if undefined."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Checked:
    """The number of compared items, and the problems found."""

    compared: int = 0
    wrong: tuple[str, ...] = ()


NOTHING = Checked()


class Item(NamedTuple):
    """The mean mark of a test, its number of answers, and its generation call."""

    mark: Fraction
    answers: int
    call: str


def figures_of(items: Sequence[Item], least: int = 0) -> Figures:
    """Return the mean of marks in [`least`, 1]; each end is the wider of Student's t by call and Gaffke's bound."""
    size, answers = len(items), sum(item.answers for item in items)
    if not size:
        return Figures(None, None, None, 0)
    middle = mean(item.mark for item in items)
    if size == 1:
        return Figures(float(middle), None, None, answers)
    by_call: dict[str, list[Fraction]] = defaultdict(list)
    for item in items:
        by_call[item.call].append(item.mark - middle)
    half_width, span = 2.0, 1 - least
    if len(by_call) > 1:
        squares = sum((sum(each) ** 2 * Fraction(size, size - len(each)) for each in by_call.values()), Fraction(0))
        freedom = Fraction(size**2, sum(len(each) ** 2 for each in by_call.values())) - 1
        half_width = students_t(float(freedom)) * sqrt(squares) / size
    marks = Counter((item.mark - least) / span for item in items)
    below = 1 - gaffke_bound(Counter({1 - mark: count for mark, count in marks.items()}))
    low = min(float(middle) - half_width, least + span * below)
    high = max(float(middle) + half_width, least + span * gaffke_bound(marks))
    return Figures(float(middle), max(float(least), low), min(1.0, high), answers)


def mean_of(parts: Sequence[Figures]) -> Figures:
    """Return the mean of the dimensions' means; the distances of the interval's ends add in quadrature."""
    answers, means = sum(part.n for part in parts), [part.mean for part in parts if part.mean is not None]
    if not means or len(means) < len(parts):
        return Figures(None, None, None, answers)
    middle, below, above = sum(means) / len(parts), 0.0, 0.0
    for part in parts:
        if part.mean is None or part.low is None or part.high is None:
            return Figures(middle, None, None, answers)
        below, above = below + (part.mean - part.low) ** 2, above + (part.high - part.mean) ** 2
    return Figures(middle, middle - sqrt(below) / len(parts), middle + sqrt(above) / len(parts), answers)


def same(found: float | Fraction | None, wanted: float | Fraction | None, rounding: float = _ROUNDING) -> bool:
    """Whether two numbers are equal up to rounding, or both None."""
    if found is None or wanted is None:
        return found is wanted
    return isclose(found, float(wanted), rel_tol=0, abs_tol=rounding)


def all_same(found: Numbers, wanted: Numbers, rounding: float = _ROUNDING) -> bool:
    """Whether two sequences have the same length and the same numbers in order."""
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(same(one, other, rounding) for one, other in pairs)


def unequal(what: str, found: Lines, wanted: Lines, rounding: float = _ROUNDING) -> Iterator[str]:
    """Yield the keys whose numbers differ, and those that are only in one of both."""
    for key in sorted(found.keys() | wanted.keys()):
        shown, expected = found.get(key), wanted.get(key)
        if shown is None or expected is None or not all_same(shown, expected, rounding):
            exact = expected and tuple(each if each is None else float(each) for each in expected)
            yield f"{what} of {', '.join(filter(None, key))} is {shown}, expected {exact}"


def students_t(freedom: float) -> float:
    """Return the two-sided 95 % quantile of Student's t, by the incomplete beta function."""
    share = float(betaincinv(freedom / 2, 0.5, _OUTSIDE))
    return sqrt(freedom * (1 - share) / share)


def gaffke_bound(marks: Counter[Fraction]) -> float:
    """Return the upper end of Gaffke's interval, by the Gil-Pelaez integral."""
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
    """Return P(sum of `steps` with Dirichlet(`counts`) weights > 0)."""
    frequencies = np.exp(_LOGS)
    turned = np.outer(steps, frequencies)
    sizes = counts @ (-0.5 * np.log1p(turned * turned))
    angles = counts @ np.arctan(turned)
    return float(0.5 + (np.exp(sizes) * np.sin(angles)).sum() * (_LOGS[1] - _LOGS[0]) / np.pi)
