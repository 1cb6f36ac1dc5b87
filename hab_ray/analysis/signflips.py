"""Randomisation tests of exchangeable labels, exact by FFT: sign flips of a pair, and one subject among many.

Null hypothesis of a pair: in every generation call the two labels are exchangeable, so that the call's sum of
differences has either sign with probability 1/2. This is stronger than equal means: with skewed differences of equal
means the test rejects more often than its level (.17 for samples of 30, .064 for 500, at the level .05). A subject's
difference from the mean of several others is skewed even if labels are exchangeable, so its sign is not flipped; the
null hypothesis is that in every call the subject is any of them with equal probability.

A sum of independently flipped multiples of 1/L lives on a lattice. Its characteristic function is a product of cosines,
and one FFT gives its whole distribution. Values on no sufficiently coarse lattice are first rounded to 1/2000 of the
statistic's standard deviation; the test of the rounded statistic is exact as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

_LATTICES = (1, 10, 20, 30, 60, 120, 180, 360, 840, 2520, 5040)
_MAX_STEPS = 1 << 17
_STEPS_PER_SD = 2000
_MIN_P, _TOLERANCE = 1e-17, 1e-7
_Integers = NDArray[np.int64]
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Flips:
    """The distribution of a sum of flipped terms, in steps of size `step`, and the observed sum.

    `chances` holds the probability of each number of steps, with 0 in the middle.
    """

    chances: _Array
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


def flips(sums: _Array) -> Flips:
    """Return the distribution of the total of these sums, each with either sign."""
    return _flips(*_on_lattice(sums))


def _flips(step: float, units: _Integers) -> Flips:
    return Flips(_chances(np.abs(units)), step, int(units.sum()))


def p_value(sums: _Array) -> float:
    """Return the probability of a total at least as far from 0 if each sum has either sign."""
    return flips(sums).p


def p_of_mean(parts: Sequence[_Array]) -> float:
    """Return the p-value of the unweighted mean of several parts' means; parts hold sums by call over their tests.

    Nothing is rounded if all parts are on one lattice.
    """
    joined = np.concatenate(list(parts))
    step, units = _on_lattice(joined)
    if np.allclose(units * step, joined, rtol=0, atol=1e-9 * max(step, 1e-300)):
        return _flips(step, units).p
    grid = sqrt(float(joined @ joined)) / _STEPS_PER_SD
    total, observed = np.ones(1), 0
    for part in map(flips, parts):
        zero = len(part.chances) // 2
        places = np.rint((np.arange(len(part.chances)) - zero) * part.step / grid).astype(np.int64)
        observed += int(np.rint(part.observed * part.step / grid))
        half = int(np.abs(places).max())
        spread = np.bincount(places + half, weights=part.chances, minlength=2 * half + 1).astype(np.float64)
        total = _convolved(total, spread)
    return Flips(total, grid, observed).p


def p_among(own: int, sums: _Array, eligible: NDArray[np.bool_]) -> float:
    """Return the probability of a total at least as far from its mean if the label in row `own` is random in each call.

    `sums` and `eligible` are labels x calls: the label may be any eligible one of a call, its own row included.
    """
    _, units = _on_lattice(np.where(eligible, sums, 0.0).ravel(), _MAX_STEPS * len(sums))
    steps = np.where(eligible, units.reshape(sums.shape), np.iinfo(np.int64).max)
    steps -= steps.min(axis=0)
    candidates, observed = eligible.sum(axis=0), int(steps[own].sum())
    expected = float(np.where(eligible, steps, 0).sum(axis=0) @ (1 / candidates))
    by_call = np.zeros((sums.shape[1], int(steps[eligible].max()) + 1))
    np.add.at(by_call, (np.nonzero(eligible)[1], steps[eligible]), 1.0)
    shapes, counts = np.unique(by_call / candidates[:, None], axis=0, return_counts=True)
    size = int(np.where(eligible, steps, 0).max(axis=0).sum()) + 1
    length = next_fast_len(size, real=True)
    chances = np.clip(irfft(_product(rfft(shapes, length), counts), length)[:size], 0.0, None)
    is_far = np.abs(np.arange(size) - expected) >= abs(observed - expected) - _TOLERANCE
    return float(min(1.0, max(_MIN_P, chances[is_far].sum())))


def _product(waves: NDArray[np.complex128], counts: _Integers) -> NDArray[np.complex128]:
    """Multiply the waves, each to the power of its count, by squaring: `**` takes ten times as long."""
    product = np.ones(waves.shape[1], dtype=np.complex128)
    while len(counts):
        product *= np.prod(waves[counts % 2 == 1], axis=0)
        waves, counts = waves[counts > 1], counts[counts > 1] // 2
        waves = waves * waves
    return product


def _on_lattice(sums: _Array, most: int = _MAX_STEPS) -> tuple[float, _Integers]:
    """Return the step of a lattice and the sums in steps, fewer than `most` in all; round if no lattice fits."""
    largest = float(np.abs(sums).max(initial=0.0))
    if not largest:
        return 1.0, np.zeros(len(sums), dtype=np.int64)
    shared = float(np.abs(sums[np.abs(sums) > 1e-12 * largest]).min())
    for unit in (1.0, shared):
        for parts in _LATTICES:
            units = sums / unit * parts
            if np.abs(units).sum() < most and np.abs(units - np.rint(units)).max() < 1e-6:
                whole = np.rint(units).astype(np.int64)
                divisor = int(np.gcd.reduce(whole)) or 1
                return unit / parts * divisor, whole // divisor
    step = sqrt(float(sums @ sums)) / _STEPS_PER_SD
    return step, np.rint(sums / step).astype(np.int64)


def _chances(sizes: _Integers) -> _Array:
    """Return the distribution of the sum of these sizes with either sign, from least to greatest.

    Tails that Hoeffding's bound shows to be negligible are cut off.
    """
    total = int(sizes.sum())
    reach = min(total, int(sqrt(2 * float((sizes * sizes).sum()) * log(2 / _MIN_P))) + 1)
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
    around = np.clip(irfft(waves, length), 0.0, None)
    return np.concatenate([around[length - reach :], around[: reach + 1]])


def _convolved(one: _Array, other: _Array) -> _Array:
    size = len(one) + len(other) - 1
    length = next_fast_len(size, real=True)
    convolved: _Array = np.clip(irfft(rfft(one, length) * rfft(other, length), length)[:size], 0.0, None)
    return convolved
