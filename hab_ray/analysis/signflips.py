"""Tests of exchangeable labels, exact by characteristic function: sign flips of two, and one subject among many.

The null of a pair: in every generation call it is as likely as not that the two labels were swapped, so that each
call's sum of differences has either sign with equal chance. That is more than equal means: of skewed differences with
equal means the test rejects more often than it says (.17 of samples of 30, .064 of 500, at the level .05). For the same
reason one subject's difference from the mean of several others is not flipped: it is skewed where labels are
exchangeable. There the null is that in every call the subject is any of them with equal chance.

The sum of independently flipped multiples of 1/L lives on a lattice, its characteristic function is a product of
cosines, and one FFT gives its whole distribution. What is on no lattice of a fine enough grid is rounded to 1/2000 of
the statistic's standard deviation before it is flipped: the test of the rounded statistic is exact as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

_LATTICES = (1, 10, 20, 30, 60, 120, 180, 360, 840, 2520, 5040)
_LARGEST = 1 << 17
_GRID = 2000
_TINY, _SAME = 1e-17, 1e-7
_Integers = NDArray[np.int64]
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Flips:
    """The distribution of a sum of flipped terms: `chances` of (index - zero) steps of `step`; `found` is the sum."""

    chances: _Array
    step: float
    found: int

    @property
    def p(self) -> float:
        """The two-sided p-value, to about 1e-14; 1e-17 stands for all that is less."""
        zero, far = len(self.chances) // 2, abs(self.found)
        if not far:
            return 1.0
        if far > zero:
            return _TINY
        tails = self.chances[: zero - far + 1].sum() + self.chances[zero + far :].sum()
        return float(min(1.0, max(_TINY, tails)))


def flips(sums: _Array) -> Flips:
    """The distribution of the sum of these, each with either sign."""
    step, units = _on_lattice(sums)
    return Flips(_chances(np.abs(units)), step, int(units.sum()))


def p_value(sums: _Array) -> float:
    """The chance that the sum of these, each with either sign, is as far from 0 as it is."""
    return flips(sums).p


def p_of_mean(parts: Sequence[_Array]) -> float:
    """The same of the plain mean of the means of several parts; each part holds sums over calls, over its tests.

    Where all parts are on one lattice, nothing is rounded.
    """
    joined = np.concatenate(list(parts))
    step, units = _on_lattice(joined)
    if np.allclose(units * step, joined, rtol=0, atol=1e-9 * max(step, 1e-300)):
        return Flips(_chances(np.abs(units)), step, int(units.sum())).p
    every = [flips(part) for part in parts]
    grid = sqrt(float(joined @ joined)) / _GRID
    whole, found = np.ones(1), 0
    for part in every:
        zero = len(part.chances) // 2
        places = np.rint((np.arange(len(part.chances)) - zero) * part.step / grid).astype(np.int64)
        found += int(np.rint(part.found * part.step / grid))
        half = int(np.abs(places).max())
        spread = np.bincount(places + half, weights=part.chances, minlength=2 * half + 1).astype(np.float64)
        whole = _convolved(whole, spread)
    return Flips(whole, grid, found).p


def p_among(own: int, sums: _Array, among: NDArray[np.bool_]) -> float:
    """The chance that one label's sum over calls is as far from what is expected, if its place in each is drawn.

    `sums` are labels x calls; `among` says which labels the one in row `own`, itself included, may be in a call.
    """
    _, units = _on_lattice(np.where(among, sums, 0.0).ravel(), _LARGEST * len(sums))
    steps = np.where(among, units.reshape(sums.shape), np.iinfo(np.int64).max)
    steps -= steps.min(axis=0)
    expected, found = float(np.where(among, steps, 0).sum(axis=0) @ (1 / among.sum(axis=0))), int(steps[own].sum())
    drawn = np.zeros((sums.shape[1], int(steps[among].max()) + 1))
    np.add.at(drawn, (np.nonzero(among)[1], steps[among]), 1.0)
    shapes, counts = np.unique(drawn / among.sum(axis=0)[:, None], axis=0, return_counts=True)
    size = int(np.where(among, steps, 0).max(axis=0).sum()) + 1
    length = next_fast_len(size, real=True)
    chances = np.clip(irfft(_product(rfft(shapes, length), counts), length)[:size], 0.0, None)
    is_far = np.abs(np.arange(size) - expected) >= abs(found - expected) - _SAME
    return float(min(1.0, max(_TINY, chances[is_far].sum())))


def _product(waves: NDArray[np.complex128], counts: _Integers) -> NDArray[np.complex128]:
    """The product of these, each to the power of its count: by squares, as `**` takes ten times as long."""
    found = np.ones(waves.shape[1], dtype=np.complex128)
    while len(counts):
        found *= np.prod(waves[counts % 2 == 1], axis=0)
        waves, counts = waves[counts > 1], counts[counts > 1] // 2
        waves = waves * waves
    return found


def _on_lattice(sums: _Array, most: int = _LARGEST) -> tuple[float, _Integers]:
    """The step of a lattice, and these in steps: `most` of them in all."""
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
    step = sqrt(float(sums @ sums)) / _GRID
    return step, np.rint(sums / step).astype(np.int64)


def _chances(sizes: _Integers) -> _Array:
    """The distribution of the sum of these with either sign, from least to most.

    Beyond where its tails hold less than a float can tell from 0 by Hoeffding's bound, it is left out.
    """
    total = int(sizes.sum())
    reach = min(total, int(sqrt(2 * float((sizes * sizes).sum()) * log(2 / _TINY))) + 1)
    length = next_fast_len(2 * reach + 1, real=True)
    waves = np.ones(length // 2 + 1)
    turns = np.arange(length // 2 + 1)
    cosines = np.cos(2 * np.pi * np.arange(length) / length)
    for size, count in zip(*np.unique(sizes[sizes > 0], return_counts=True), strict=True):
        power = cosines[turns * size % length]
        for bit in reversed(bin(count)[2:]):  # squares: `power ** count` takes twenty times as long
            if bit == "1":
                waves *= power
            power = power * power
    around = np.clip(irfft(waves, length), 0.0, None)
    return np.concatenate([around[length - reach :], around[: reach + 1]])


def _convolved(one: _Array, other: _Array) -> _Array:
    size = len(one) + len(other) - 1
    length = next_fast_len(size, real=True)
    found: _Array = np.clip(irfft(rfft(one, length) * rfft(other, length), length)[:size], 0.0, None)
    return found
