"""How well tests discriminate between subjects: item-rest correlations and split-half reliability."""

from __future__ import annotations

from itertools import combinations
from math import comb, nan

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]
_DRAWS, _SEED = 500, 0
_TOLERANCE, _DECIMALS = 1e-9, 12


def item_rest(marks: _Array) -> _Array:
    """Return each test's correlation with the mean of the others, given complete marks (subjects x tests).

    It is nan if all subjects have the same mark on the test or on the others. Rounding keeps zeros exact.
    """
    rest = (marks.sum(1, keepdims=True) - marks) / (marks.shape[1] - 1)
    own, others = marks - marks.mean(0), rest - rest.mean(0)
    spread = np.sqrt((own**2).sum(0) * (others**2).sum(0))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations: _Array = np.where(spread > _TOLERANCE, (own * others).sum(0) / spread, np.nan).round(_DECIMALS)
    return correlations


def split_half(marks: _Array, tests: int) -> float:
    """Return the reliability of so many `tests` from halves of those with complete marks (subjects x complete tests).

    It is the mean over splits by Spearman and Brown's formula, which gives that of both halves, and by the same formula
    that of all `tests`. Uses all splits if there are at most 500, else 500 random ones; each leaves one test out if
    their number is odd. The result is nan if no two halves can be correlated.
    """
    _, complete = marks.shape
    half = complete // 2
    if not half:
        return nan
    if complete % 2 == 0 and comb(complete, half) // 2 <= _DRAWS:
        chosen = [[0, *rest] for rest in combinations(range(1, complete), half - 1)]
        halves = [(one, [test for test in range(complete) if test not in one]) for one in chosen]
    else:
        random = np.random.default_rng(_SEED)
        orders = (random.permutation(complete) for _ in range(_DRAWS))
        halves = [(order[:half].tolist(), order[half : 2 * half].tolist()) for order in orders]
    reliabilities = [_spearman_brown(marks[:, one].mean(1), marks[:, other].mean(1)) for one, other in halves]
    known = [each for each in reliabilities if not np.isnan(each)]
    return _stepped_up(float(np.mean(known)), tests / (2 * half)) if known else nan


def _spearman_brown(one: _Array, other: _Array) -> float:
    """Return the reliability of two halves together from their correlation."""
    first, second = one - one.mean(), other - other.mean()
    spread = float(np.sqrt((first @ first) * (second @ second)))
    if spread <= _TOLERANCE:
        return nan
    return _stepped_up(float(first @ second) / spread, 2)


def _stepped_up(reliability: float, factor: float) -> float:
    """Return the reliability of `factor` times as many tests, -1 at least (Spearman and Brown)."""
    below = 1 + (factor - 1) * reliability
    return max(-1.0, factor * reliability / below) if below > _TOLERANCE else -1.0
