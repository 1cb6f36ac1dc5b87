"""How well tests discriminate between subjects: item-rest correlations and split-half reliability."""

from itertools import combinations
from math import comb, nan

import numpy as np

from hab_ray.analysis.intervals import Array, mean_of_known

_DRAWS, _SEED = 500, 0
_TOLERANCE, _DECIMALS = 1e-9, 12


def item_rest(marks: Array) -> Array:
    """Return each test's correlation with the mean of the others, given complete marks (subjects x tests).

    It is nan if all subjects have the same mark on the test or on the others. Rounding keeps zeros exact.
    """
    rest = (marks.sum(1, keepdims=True) - marks) / (marks.shape[1] - 1)
    own, others = marks - marks.mean(0), rest - rest.mean(0)
    spread = np.sqrt((own**2).sum(0) * (others**2).sum(0))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations: Array = np.where(spread > _TOLERANCE, (own * others).sum(0) / spread, np.nan).round(_DECIMALS)
    return correlations


def split_half(marks: Array) -> float:
    """Return the mean reliability over splits of the tests into halves, given marks (subjects x tests), nan if missing.

    A subject's score in a half is the mean of its known marks there. Uses all splits if there are at most 500, else 500
    random ones; each leaves one test out if their number is odd. Splits in which a subject has no mark in a half, or
    all have the same score, do not count; the result is nan if none does.
    """
    _, tests = marks.shape
    half = tests // 2
    if not half:
        return nan
    if tests % 2 == 0 and comb(tests, half) // 2 <= _DRAWS:
        chosen = [[0, *rest] for rest in combinations(range(1, tests), half - 1)]
        halves = [(one, [test for test in range(tests) if test not in one]) for one in chosen]
    else:
        random = np.random.default_rng(_SEED)
        orders = (random.permutation(tests) for _ in range(_DRAWS))
        halves = [(order[:half].tolist(), order[half : 2 * half].tolist()) for order in orders]
    reliabilities = [
        _spearman_brown(mean_of_known(marks[:, one], axis=1), mean_of_known(marks[:, other], axis=1))
        for one, other in halves
    ]
    known = [each for each in reliabilities if not np.isnan(each)]
    return float(np.mean(known)) if known else nan


def _spearman_brown(one: Array, other: Array) -> float:
    """Return the reliability of the whole test from the correlation of its halves, -1 at least; nan if unknown."""
    first, second = one - one.mean(), other - other.mean()
    spread = float(np.sqrt((first @ first) * (second @ second)))
    if not spread > _TOLERANCE:
        return nan
    r = float(first @ second) / spread
    return max(-1.0, 2 * r / (1 + r)) if r > -1 + _TOLERANCE else -1.0
