"""95 % confidence intervals of means of bounded values, valid near the bounds and for tests from one generation call.

`interval` takes the wider of two at each end. Student's t clustered by generation call allows for correlated tests of
one call, but fails near 0 and 1, where a small sample may have no spread at all. Gaffke's bound holds there: it adds
one value at the end of the scale and takes quantiles of the mean under random weights, uniform on the simplex. Its
coverage is proven for values of 0 and 1, where it equals Clopper and Pearson's, and no counterexample is known (Gaffke
2005; Learned-Miller and Thomas 2020). `betting` in `benchmarks.coverage` is proven for any independent values
(Waudby-Smith and Ramdas 2023) and about a third wider.

Intervals generalise to other tests made the same way, but not to other judges.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import hypot, isfinite, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

LEVEL = 0.95
FEW_CALLS = 10
TAIL = (1 - LEVEL) / 2
_STEP = 0.05
_SADDLE_TOLERANCE, _NEGLIGIBLE, _TOLERANCE = 1e-3, 1e-18, 1e-13
_MAX_NEWTON_STEPS, _MAX_SECANT_STEPS = 100, 12
Array = NDArray[np.float64]


# Heights of quadrature nodes above the real axis in standard deviations; trapezoid weights, half on the axis.
_NODES = tuple(
    (np.sinh(part), np.where(part == 0, 0.5, np.cosh(part)))
    for part in np.split(np.arange(0.0, 9.0, _STEP), (60, 76, 108))
)


@dataclass(frozen=True, slots=True)
class Interval:
    """The mean of `tests` values and the ends of its interval, which are None for a single value."""

    mean: float
    low: float | None
    high: float | None
    tests: int


def interval(values: Sequence[float], calls: Sequence[Hashable], least: float = 0.0, most: float = 1.0) -> Interval:
    """Return the mean of tests' values, bounded by `least` and `most`; `calls` holds each test's generation call."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, None, None, 1)
    by_t, by_gaffke = student(values, calls), gaffke(values, least, most)
    low = min(mean, max(least, min(by_t[0], by_gaffke[0])))
    return Interval(mean, low, max(mean, min(most, max(by_t[1], by_gaffke[1]))), len(values))


def ends(found: Interval | None) -> tuple[float | None, float | None, float | None]:
    """Return mean, low and high of an interval, all None without one."""
    return (found.mean, found.low, found.high) if found else (None, None, None)


def excludes_zero(low: float | None, high: float | None) -> bool:
    """Whether an interval excludes 0; one without ends does not."""
    return low is not None and high is not None and (low > 0 or high < 0)


def lies_within(low: float | None, high: float | None, margin: float) -> bool:
    """Whether an interval lies within `margin` of 0; one without ends does not."""
    return low is not None and high is not None and -margin <= low and high <= margin


def combined(parts: Sequence[Interval | None]) -> Interval | None:
    """Return the unweighted mean of independent means, or None if one of them is unknown.

    Each end's distance from the mean is the root of the sum of the squared distances of the parts, divided by their
    number (Zou and Donner's MOVER): it keeps skewness and does not pool degrees of freedom.
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
    """Return the difference `one` - `other` of two independent means, with ends by MOVER as in `combined`."""
    value, tests = one.mean - other.mean, one.tests + other.tests
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Interval(value, None, None, tests)
    below = hypot(one.mean - one.low, other.high - other.mean)
    above = hypot(one.high - one.mean, other.mean - other.low)
    return Interval(value, value - below, value + above, tests)


def student(values: Sequence[float], calls: Sequence[Hashable]) -> tuple[float, float]:
    """Return Student's t interval clustered by call; unbounded for a single call."""
    mean, error, freedom = mean_by_call(values, calls)
    if not freedom:
        return -np.inf, np.inf
    reach = float(stdtrit(freedom, 1 - TAIL)) * error
    return mean - reach, mean + reach


def mean_by_call(values: Sequence[float], calls: Sequence[Hashable]) -> tuple[float, float, float]:
    """Return a mean, its bias-reduced standard error by call (CR2), and the error's degrees of freedom.

    These are one less than the calls of equal size that would be as uneven as these; 0 for a single call.
    """
    array = np.asarray(values, dtype=np.float64)
    mean, size, call_of = float(array.mean()), len(array), numbered(calls)
    sums, shares = np.bincount(call_of, array - mean), np.bincount(call_of) / size
    if len(sums) < 2:
        return mean, 0.0, 0.0
    return mean, sqrt(float((sums * sums / (1 - shares)).sum())) / size, 1 / float(shares @ shares) - 1


def mean_of_known(values: Array, axis: int) -> Array:
    """Return the mean of the values that are not nan; nan where all are."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: Array = np.where(known, values, 0.0).sum(axis=axis) / known.sum(axis=axis)
    return means


def numbered(groups: Iterable[Hashable]) -> NDArray[np.int64]:
    """Number the groups in order of first occurrence; return each member's group number."""
    members = list(groups)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(members))}
    return np.fromiter(map(numbers.__getitem__, members), dtype=np.int64, count=len(members))


def sums_by(values: Array, groups: Iterable[Hashable]) -> Array:
    """Sum the values (or rows) of each group, in order of first occurrence."""
    numbers = numbered(groups)
    sums = np.zeros((int(numbers.max(initial=-1)) + 1, *values.shape[1:]))
    np.add.at(sums, numbers, values)
    return sums


def gaffke(values: Iterable[float], least: float = 0.0, most: float = 1.0) -> tuple[float, float]:
    """Return Gaffke's interval of the mean of independent values bounded by `least` and `most`."""
    scaled = np.clip((np.asarray(tuple(values)) - least) / (most - least), 0.0, 1.0)
    levels, counts = np.unique(np.round(scaled, 12), return_counts=True)
    counted = tuple(zip(levels.tolist(), counts.tolist(), strict=True))
    mirrored = tuple((1 - level, count) for level, count in reversed(counted))
    low, high = 1 - _upper(mirrored), _upper(counted)
    return least + low * (most - least), least + high * (most - least)


@lru_cache(maxsize=100_000)
def _upper(counted: tuple[tuple[float, int], ...]) -> float:
    """Return the 1 - TAIL quantile of the mean of counted values and a 1 under weights uniform on the simplex."""
    if counted[0][0] >= 1:
        return 1.0
    if counted[-1][0] >= 1 and len(counted) == 2 and not counted[0][0]:
        return float(betaincinv(counted[1][1] + 1, counted[0][1], 1 - TAIL))
    if len(counted) == 1 and not counted[0][0]:
        return float(betaincinv(1, counted[0][1], 1 - TAIL))
    values = np.array([level for level, _ in counted] + [1.0])
    counts = np.array([float(count) for _, count in counted] + [1.0])
    size, target = float(counts.sum()), float(ndtri(TAIL))
    mean = float(values @ counts / size)
    spread = sqrt(float((values - mean) ** 2 @ counts) / size / (size + 1))

    def error(end: float) -> float:
        """Return the error of the tail probability in normal quantiles, which are nearly linear in `end`."""
        return float(ndtri(_tail_probability(values - end, counts))) - target

    last, last_error = mean, error(mean)
    low, high = (mean, 1 - 1e-13) if last_error > 0 else (float(values[0]) + 1e-12, mean)
    end = mean + last_error * spread
    for _ in range(_MAX_SECANT_STEPS):
        if not low < end < high or not isfinite(now := error(end)):
            break
        if abs(end - last) <= _TOLERANCE or now == last_error:
            return end
        last, end, last_error = end, end - now * (end - last) / (now - last_error), now
    return float(
        scipy.optimize.brentq(lambda end: _tail_probability(values - end, counts) - TAIL, low, high, xtol=_TOLERANCE)
    )


def _tail_probability(steps: Array, counts: Array) -> float:
    """Return P(sum > 0) where each step is multiplied by the sum of `counts` unit exponentials.

    That is P(weighted mean > end), as weights uniform on the simplex are exponentials over their sum. The transform is
    inverted along the vertical line through its saddle point, where it neither oscillates nor cancels. The trapezoidal
    rule in asinh converges geometrically and stops once the rest is negligible.
    """
    saddle, curvature = _saddle(steps, counts)
    ratios, scale = steps / (1 - saddle * steps), sqrt(curvature)
    start = float(counts @ np.log1p(-saddle * steps))

    total = 0.0
    for unscaled, weights in _NODES:
        heights = unscaled / scale
        tangents = np.outer(ratios, heights)
        sizes = np.exp(-counts @ np.log1p(tangents * tangents) / 2 - start)
        angles = counts @ np.arctan(tangents)
        real = sizes * (saddle * np.cos(angles) + heights * np.sin(angles)) / (saddle * saddle + heights * heights)
        total += float(real @ weights)
        if sizes[-1] < _NEGLIGIBLE:
            break
    return total * _STEP / np.pi / scale


def _saddle(steps: Array, counts: Array) -> tuple[float, float]:
    """Return the saddle between 0 and the transform's pole, to a thousandth, and the curvature there.

    Precision hardly matters: any line between the two gives the same probability. Newton's method starts from the
    saddle of a normal sum with these moments and falls back to bisection.
    """
    low, high = 0.0, 1 / float(steps.max())
    total, squares = float(counts @ steps), float(counts @ (steps * steps))
    saddle = min((sqrt(total * total + 4 * squares) - total) / (2 * squares), (low + high) / 2)
    for _ in range(_MAX_NEWTON_STEPS):
        ratios = steps / (1 - saddle * steps)
        slope, curvature = float(counts @ ratios) - 1 / saddle, float(counts @ (ratios * ratios)) + 1 / saddle**2
        low, high = (saddle, high) if slope < 0 else (low, saddle)
        new = saddle - slope / curvature
        if abs(new - saddle) <= _SADDLE_TOLERANCE * saddle:
            break
        saddle = new if low < new < high else (low + high) / 2
    return saddle, curvature
