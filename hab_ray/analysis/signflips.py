"""Randomisation tests of exchangeable labels, exact by FFT: sign flips of a pair, and one subject among many.

Null hypothesis of a pair: in every generation call the two labels are exchangeable, so that the call's sum of
differences has either sign with probability 1/2. This is stronger than equal means: with skewed differences of equal
means the test rejects more often than its level (.17 for samples of 30, .064 for 500, at the level .05). A subject's
difference from the mean of several others is skewed even if labels are exchangeable, so flips of its sign do not
suffice; the null hypothesis is that in every call the subject is any of them with equal probability.

A sum of independently flipped multiples of 1/L lives on a lattice. Its characteristic function is a product of
cosines, and one FFT gives its whole distribution. The lattice is found in fractions, so that sums equal to the observed
one count. Up to 20 sums on no sufficiently coarse lattice are counted sign by sign. More are approximated:

- Parts with unequal numbers of tests, each on a lattice of its own, are combined on a grid of 1/10,000 of the total's
  standard deviation (SD). All totals that may be as far as the observed one count, so p is never too small. It is too
  large by at most the chance of a total within 1/10,000 SD per part of the observed one, less than .4 % of p for six
  parts and p above 1e-6.
- Sums of one part on no coarse lattice are first rounded to 1/2000 of its SD. The test of the rounded sums is exact as
  well, so it keeps its level; for 500 calls its total is typically within .003 SD of the one that is not rounded.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, gcd, lcm, log, sqrt
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from hab_ray.analysis.intervals import Array

_MAX_DENOMINATOR, _DECIMALS = 10_000, 12
_MAX_STEPS = 1 << 17
_MAX_COUNTED = 20
_SHAPES_AT_ONCE = 64
_STEPS_PER_SD, _GRID_PER_SD = 2000, 10_000
_MIN_P, _TOLERANCE = 1e-17, 1e-7
_Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Flips:
    """The distribution of a sum of flipped terms, in steps of size `step`, and the observed sum.

    `chances` holds the probability of each number of steps, with 0 in the middle.
    """

    chances: Array
    step: float
    observed: int

    @property
    def p(self) -> float:
        """The two-sided p-value, to about 1e-14 and never below 1e-17."""
        zero, distance = len(self.chances) // 2, abs(self.observed)
        if not distance:
            return 1.0
        if distance > zero:
            return _MIN_P
        tails = self.chances[: zero - distance + 1].sum() + self.chances[zero + distance :].sum()
        return float(min(1.0, max(_MIN_P, tails)))


def p_of_mean(sums: Sequence[Array], tests: Sequence[int]) -> float:
    """Return the p-value of the unweighted mean of several parts' means, given sums by call and numbers of tests."""
    lattice = _on_lattice(sums, tests)
    if lattice is not None:
        return _flips(*lattice).p
    shares = [part / size for part, size in zip(sums, tests, strict=True)]
    joined = np.concatenate(shares)
    joined = joined[joined != 0]
    if len(joined) <= _MAX_COUNTED:
        return _counted(joined)
    parts = [
        _flips(*(_on_lattice([part], [size]) or _rounded(share)))
        for part, size, share in zip(sums, tests, shares, strict=True)
    ]
    return parts[0].p if len(parts) == 1 else _on_grid(parts, sqrt(float(joined @ joined)) / _GRID_PER_SD)


def _on_grid(parts: Sequence[Flips], grid: float) -> float:
    """Return the p-value of the parts' total, counting all totals that may be as far as the observed one.

    Each part is rounded to the grid, so that a total is displaced by at most half a step per part.
    """
    reach = _reach(_GRID_PER_SD)
    length = next_fast_len(2 * reach + 1, real=True)
    waves = np.ones(length // 2 + 1, dtype=np.complex128)
    for part in parts:
        steps = np.arange(len(part.chances)) - len(part.chances) // 2
        places = np.rint(steps * part.step / grid).astype(np.int64) % length
        waves *= rfft(np.bincount(places, weights=part.chances, minlength=length))
    observed = abs(sum(part.observed * part.step for part in parts)) / grid
    nearest = max(0, ceil(observed - len(parts) / 2 - _TOLERANCE))
    return Flips(_centred(waves, length, reach), grid, nearest).p


def _flips(step: float, units: _Integers) -> Flips:
    return Flips(_chances(np.abs(units)), step, int(units.sum()))


def _counted(sums: Array) -> float:
    """Return the p-value by going through all signs."""
    totals = np.zeros(1)
    for each in sums:
        totals = np.concatenate([totals - each, totals + each])
    return float(np.mean(np.abs(totals) >= abs(sums.sum()) - 10.0**-_DECIMALS))


def p_among(own: int, sums: Array, eligible: NDArray[np.bool_]) -> float:
    """Return the probability of a total at least as far from its mean if the label in row `own` is random in each call.

    `sums` and `eligible` are labels x calls: the label may be any eligible one of a call, its own row included.
    """
    known = np.where(eligible, sums, 0.0).ravel()
    _, units = _on_lattice([known], [1], _MAX_STEPS * len(sums)) or _rounded(known)
    steps = np.where(eligible, units.reshape(sums.shape), np.iinfo(np.int64).max)
    steps -= steps.min(axis=0)
    candidates, observed = eligible.sum(axis=0), int(steps[own].sum())
    expected = float(np.where(eligible, steps, 0).sum(axis=0) @ (1 / candidates))
    by_call = np.zeros((sums.shape[1], int(steps[eligible].max()) + 1))
    np.add.at(by_call, (np.nonzero(eligible)[1], steps[eligible]), 1.0)
    counted = Counter(map(bytes, by_call / candidates[:, None]))  # `unique` of rows takes ten times as long
    shapes, counts = np.frombuffer(b"".join(counted)).reshape(len(counted), -1), np.array([*counted.values()])
    widths = np.where(eligible, steps, 0).max(axis=0)
    reach = _reach(sqrt(float(widths @ widths)) / 2)
    first = max(0, int(expected) - reach)
    size = min(int(widths.sum()), int(expected) + reach + 1) - first + 1
    length = next_fast_len(size, real=True)
    waves = np.ones(length // 2 + 1, dtype=np.complex128)
    for at in range(0, len(shapes), _SHAPES_AT_ONCE):
        some = slice(at, at + _SHAPES_AT_ONCE)
        waves *= _product(rfft(shapes[some], length), counts[some])
    chances = np.clip(np.roll(irfft(waves, length), -first)[:size], 0.0, None)
    is_far = np.abs(first + np.arange(size) - expected) >= abs(observed - expected) - _TOLERANCE
    return float(min(1.0, max(_MIN_P, chances[is_far].sum())))


def p_beside_mean(own: int, sums: Sequence[Array], tests: Sequence[int]) -> float:
    """Return the p-value of a label's difference from the mean of all labels, overall.

    `sums` holds each part's sums of these differences, labels x calls. With three labels or more, flips of sign reject
    too often if the differences are skewed, and a random label does if one label varies more than the others. The
    larger of the two p-values keeps its level in both cases.
    """
    joined = np.concatenate([part / size for part, size in zip(sums, tests, strict=True)], axis=1)
    among = p_among(own, joined, np.ones_like(joined, dtype=np.bool_))
    return max(among, p_of_mean([part[own] for part in sums], tests))


def _product(waves: NDArray[np.complex128], counts: _Integers) -> NDArray[np.complex128]:
    """Multiply the waves, each to the power of its count, by squaring: `**` takes ten times as long."""
    product = np.ones(waves.shape[1], dtype=np.complex128)
    while len(counts):
        product *= np.prod(waves[counts % 2 == 1], axis=0)
        waves, counts = waves[counts > 1], counts[counts > 1] // 2
        waves = waves * waves
    return product


def _on_lattice(sums: Sequence[Array], tests: Sequence[int], most: int = _MAX_STEPS) -> tuple[float, _Integers] | None:
    """Return the step of the parts' common lattice and their sums over tests in steps; None if there are `most`."""
    distinct, places = list[Fraction | None](), list[_Integers]()
    for part, size in zip(sums, tests, strict=True):
        values, inverse = np.unique(np.round(part, _DECIMALS), return_inverse=True)
        places.append(inverse + len(distinct))
        distinct += [_fraction(value, size) for value in values.tolist()]
    known = [share for share in distinct if share is not None]
    denominator = lcm(*{share.denominator for share in known})
    units = [share.numerator * (denominator // share.denominator) for share in known]
    divisor = gcd(*units) or 1
    steps, place = [unit // divisor for unit in units], np.concatenate(places)
    if len(known) < len(distinct) or sum(map(mul, map(abs, steps), np.bincount(place).tolist())) >= most:
        return None
    return divisor / denominator, np.array(steps, dtype=np.int64)[place]


@lru_cache(maxsize=100_000)
def _fraction(value: float, tests: int) -> Fraction | None:
    """Return a sum over a number of tests; None if the sum is no fraction with a small denominator."""
    nearest = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    return nearest / tests if abs(float(nearest) - value) < 10 * 10.0**-_DECIMALS else None


def _rounded(sums: Array) -> tuple[float, _Integers]:
    """Return a step of 1/2000 of the total's standard deviation, and the sums in steps."""
    step = sqrt(float(sums @ sums)) / _STEPS_PER_SD
    return step, np.rint(sums / step).astype(np.int64)


def _chances(sizes: _Integers) -> Array:
    """Return the distribution of the sum of these sizes with either sign, from least to greatest within `_reach`."""
    total = int(sizes.sum())
    reach = min(total, _reach(sqrt(float((sizes * sizes).sum()))))
    length = next_fast_len(2 * reach + 1, real=True)
    waves = np.ones(length // 2 + 1)
    turns = np.arange(length // 2 + 1)
    cosines = np.cos(2 * np.pi * np.arange(length) / length)
    for size, count in zip(*np.unique(sizes[sizes > 0], return_counts=True), strict=True):
        power = cosines[turns * size % length]
        for bit in reversed(bin(count)[2:]):  # by squaring: `power ** count` takes twenty times as long
            if bit == "1":
                waves *= power
            power = power * power
    return _centred(waves, length, reach)


def _reach(deviation: float) -> int:
    """Return the number of steps from 0 beyond which Hoeffding's bound leaves a negligible chance."""
    return int(deviation * sqrt(2 * log(2 / _MIN_P))) + 1


def _centred(waves: NDArray[Any], length: int, reach: int) -> Array:
    """Return the distribution that has this transform, from -`reach` to `reach` steps."""
    around = np.clip(irfft(waves, length), 0.0, None)
    return np.concatenate([around[length - reach :], around[: reach + 1]])
