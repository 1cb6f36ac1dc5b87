"""95 % intervals of means of bounded values that hold at the edges, and for tests that were generated together.

`interval` is the wider, at each end, of two. Student's t by generation call, on G - 1 degrees of freedom, sees that
tests of one call are alike, and fails near 0 and 1, where a sample of few tests may have no spread at all. Gaffke's
bound holds there: it takes the values as they are, one more at the end of the scale, and the quantiles of their mean
under random weights (uniform on the simplex). That it covers is proven for values that are 0 or 1 alone, where it is
Clopper and Pearson's, and was never seen to fail (Gaffke 2005; Learned-Miller and Thomas 2020). `betting` is proven for
any independent values (Waudby-Smith and Ramdas 2023) and about a third wider.

All speak of tests made this way, not of these tests alone, and of these judges: that others would judge otherwise is in
none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import hypot, isfinite, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtri, stdtrit

LEVEL = 0.95
FEW_CALLS = 10
TAIL = (1 - LEVEL) / 2
_STEP = 0.05
_NEAR_ENOUGH, _NOTHING, _EXACT = 1e-3, 1e-18, 1e-13
_NEWTONS, _SECANTS = 100, 12
_BET = 0.5
_Array = NDArray[np.float64]


class _Nodes(NamedTuple):
    """Heights over the real axis, in standard deviations, and the weights of trapezoids there; the axis counts half."""

    heights: _Array
    weights: _Array


_PLACES = np.arange(0.0, 9.0, _STEP)
_NODES = tuple(
    _Nodes(np.sinh(places), np.where(places == 0, 0.5, np.cosh(places))) for places in np.split(_PLACES, (60, 76, 108))
)


@dataclass(frozen=True, slots=True)
class Interval:
    """The mean of `tests` values with both ends of its interval, which are None where there is one value alone."""

    mean: float
    low: float | None
    high: float | None
    tests: int


def interval(values: Sequence[float], calls: Sequence[Hashable], least: float = 0.0, most: float = 1.0) -> Interval:
    """The mean of tests' values from `least` to `most`; `calls` names the generation call of each test."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, None, None, 1)
    by_t, by_gaffke = student(values, calls), gaffke(values, least, most)
    low = min(mean, max(least, min(by_t[0], by_gaffke[0])))
    return Interval(mean, low, max(mean, min(most, max(by_t[1], by_gaffke[1]))), len(values))


def excludes_zero(low: float | None, high: float | None) -> bool:
    """Whether an interval with these ends tells its value from 0; one without ends does not."""
    return low is not None and high is not None and (low > 0 or high < 0)


def lies_within(low: float | None, high: float | None, margin: float) -> bool:
    """Whether an interval with these ends calls its value equal to 0, up to a margin."""
    return low is not None and high is not None and -margin <= low and high <= margin


def combined(parts: Sequence[Interval | None]) -> Interval | None:
    """The unweighted mean of independent means; None where one of them is unknown.

    The distance of each end from the mean is the root of the sum of the squares of the parts' distances, over their
    number (Zou and Donner's MOVER): what is skewed stays so, and no part lends another its degrees of freedom.
    """
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    mean, tests = float(np.mean([part.mean for part in known])), sum(part.tests for part in known)
    lows = [part.mean - part.low for part in known if part.low is not None]
    highs = [part.high - part.mean for part in known if part.high is not None]
    if len(lows) < len(known) or len(highs) < len(known):
        return Interval(mean, None, None, tests)
    return Interval(mean, mean - hypot(*lows) / len(known), mean + hypot(*highs) / len(known), tests)


def apart(one: Interval, other: Interval) -> Interval:
    """How far a mean is above another, independent one; the ends are as far as in `combined`."""
    value, tests = one.mean - other.mean, one.tests + other.tests
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Interval(value, None, None, tests)
    below = hypot(one.mean - one.low, other.high - other.mean)
    above = hypot(one.high - one.mean, other.mean - other.low)
    return Interval(value, value - below, value + above, tests)


def student(values: Sequence[float], calls: Sequence[Hashable]) -> tuple[float, float]:
    """Student's t on G - 1 degrees of freedom, each call's deviations summed; of a single call all there is."""
    found = np.asarray(values, dtype=np.float64)
    mean = float(found.mean())
    sums = sums_by(found - mean, calls)
    if len(sums) < 2:
        return -np.inf, np.inf
    error = sqrt(len(sums) / (len(sums) - 1) * float(sums @ sums)) / len(found)
    reach = float(stdtrit(len(sums) - 1, 1 - TAIL)) * error
    return mean - reach, mean + reach


def mean_of_known(values: _Array, axis: int) -> _Array:
    """The mean of what is no nan, nan where nothing else is."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: _Array = np.where(known, values, 0.0).sum(axis=axis) / known.sum(axis=axis)
    return means


def numbered(groups: Iterable[Hashable]) -> NDArray[np.int64]:
    """The number of each member's group, in the order in which groups first occur."""
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(group, len(places)) for group in groups], dtype=np.int64)


def sums_by(values: _Array, groups: Iterable[Hashable]) -> _Array:
    """The sum of the values, or of the rows, of each group, in the order in which groups first occur."""
    places = numbered(groups)
    found = np.zeros((int(places.max(initial=-1)) + 1, *values.shape[1:]))
    np.add.at(found, places, values)
    return found


def gaffke(values: Iterable[float], least: float = 0.0, most: float = 1.0) -> tuple[float, float]:
    """Gaffke's interval of the mean of independent values from `least` to `most`."""
    scaled = np.clip((np.asarray(tuple(values)) - least) / (most - least), 0.0, 1.0)
    levels, counts = np.unique(np.round(scaled, 12), return_counts=True)
    given = tuple(zip(levels.tolist(), counts.tolist(), strict=True))
    mirrored = tuple((1 - level, count) for level, count in reversed(given))
    low, high = 1 - _upper(mirrored, TAIL), _upper(given, TAIL)
    return least + low * (most - least), least + high * (most - least)


@lru_cache(maxsize=100_000)
def _upper(given: tuple[tuple[float, int], ...], tail: float) -> float:
    """The quantile at 1 - `tail` of the mean of these values and a 1 under weights uniform on the simplex."""
    if given[0][0] >= 1:
        return 1.0
    if given[-1][0] >= 1 and len(given) == 2 and not given[0][0]:
        return float(betaincinv(given[1][1] + 1, given[0][1], 1 - tail))
    if len(given) == 1 and not given[0][0]:
        return float(betaincinv(1, given[0][1], 1 - tail))
    values = np.array([level for level, _ in given] + [1.0])
    counts = np.array([float(count) for _, count in given] + [1.0])
    size, goal = float(counts.sum()), float(ndtri(tail))
    mean = float(values @ counts / size)
    spread = sqrt(float((values - mean) ** 2 @ counts) / size / (size + 1))

    def beyond(end: float) -> float:
        """How far the chance to exceed an end is off, in quantiles of a normal: nearly linear in the end."""
        return float(ndtri(_exceeds(values - end, counts))) - goal

    last, off = mean, beyond(mean)
    low, high = (mean, 1 - 1e-13) if off > 0 else (float(values[0]) + 1e-12, mean)
    end = mean + off * spread
    for _ in range(_SECANTS):
        if not low < end < high or not isfinite(now := beyond(end)):
            break
        if abs(end - last) <= _EXACT or now == off:
            return end
        last, end, off = end, end - now * (end - last) / (now - off), now
    return float(brentq(lambda end: _exceeds(values - end, counts) - tail, low, high, xtol=_EXACT))


def _exceeds(steps: _Array, counts: _Array) -> float:
    """P(sum of steps, each times as many unit exponentials as it counts, > 0): the weighted mean is above.

    Weights uniform on the simplex are exponentials over their sum. Their transform is inverted along the vertical line
    through its saddle point, where it neither oscillates nor cancels; trapezoids in asinh converge geometrically, and
    end where nothing is left: the more values, the sooner.
    """
    saddle, curve = _saddle(steps, counts)
    turning, scale = steps / (1 - saddle * steps), sqrt(curve)
    start = float(counts @ np.log1p(-saddle * steps))

    found = 0.0
    for nodes in _NODES:
        heights = nodes.heights / scale
        turned = np.outer(turning, heights)
        sizes = np.exp(-counts @ np.log1p(turned * turned) / 2 - start)
        angles = counts @ np.arctan(turned)
        real = sizes * (saddle * np.cos(angles) + heights * np.sin(angles)) / (saddle * saddle + heights * heights)
        found += float(real @ nodes.weights)
        if sizes[-1] < _NOTHING:
            break
    return found * _STEP / np.pi / scale


def _saddle(steps: _Array, counts: _Array) -> tuple[float, float]:
    """The saddle between 0 and the transform's pole, to a thousandth, and the curvature there.

    Every line between them gives the same chance. By Newton's steps from the saddle of a normal sum with these moments,
    halving the bracket where they lead out of it.
    """
    low, high = 0.0, 1 / float(steps.max())
    total, squares = float(counts @ steps), float(counts @ (steps * steps))
    saddle = min((sqrt(total * total + 4 * squares) - total) / (2 * squares), (low + high) / 2)
    for _ in range(_NEWTONS):
        turning = steps / (1 - saddle * steps)
        slope, curve = float(counts @ turning) - 1 / saddle, float(counts @ (turning * turning)) + 1 / saddle**2
        low, high = (saddle, high) if slope < 0 else (low, saddle)
        new = saddle - slope / curve
        if abs(new - saddle) <= _NEAR_ENOUGH * saddle:
            break
        saddle = new if low < new < high else (low + high) / 2
    return saddle, curve


def betting(values: Sequence[float], least: float = 0.0, most: float = 1.0) -> tuple[float, float]:
    """The hedged betting interval of the mean of independent values in an order that was fixed beforehand.

    Who bets on the next value with a stake that only earlier ones have set multiplies its dollar by 1/risk with
    probability `risk` at most, if the mean is as supposed: means at which that happens are refuted.
    """
    x = np.clip((np.asarray(values, dtype=np.float64) - least) / (most - least), 0.0, 1.0)
    seen = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (seen + 1)
    spread = (0.25 + np.cumsum((x - means) ** 2)) / (seen + 1)
    stakes = np.sqrt(2 * log(1 / TAIL) / (len(x) * np.concatenate([[0.25], spread[:-1]])))

    def refuted(mean: float, given: _Array) -> bool:
        """Whether betting that values are above `mean` wins enough."""
        bets = np.minimum(stakes, _BET / max(mean, 1e-12))
        return bool(np.log1p(bets * (given - mean)).cumsum().max() >= -log(TAIL))

    low, high = _edge(x, refuted), 1 - _edge(1 - x, refuted)
    return least + low * (most - least), least + high * (most - least)


def _edge(x: _Array, refuted: Callable[[float, _Array], bool]) -> float:
    low, high = 0.0, float(x.mean())
    if not refuted(0.0, x):
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle, x) else (low, middle)
    return low
