"""How well tests tell subjects apart: item-rest correlations, and the reliability of a dimension by split halves."""

from __future__ import annotations

from itertools import combinations
from math import comb, nan

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]
_DRAWS, _SEED = 500, 0
_SAME, _DECIMALS = 1e-9, 12


def item_rest(marks: _Array) -> _Array:
    """Of complete marks, subjects x tests, each test's correlation with the mean of the others.

    nan where all subjects have one mark, of the test or on the others: it separates nobody. Rounded, so that what is 0
    has no sign.
    """
    rest = (marks.sum(1, keepdims=True) - marks) / (marks.shape[1] - 1)
    own, others = marks - marks.mean(0), rest - rest.mean(0)
    spread = np.sqrt((own**2).sum(0) * (others**2).sum(0))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(spread > _SAME, (own * others).sum(0) / spread, np.nan)
    rounded: _Array = found.round(_DECIMALS)
    return rounded


def split_half(marks: _Array) -> float:
    """The reliability of subjects' means over tests: the mean over splits into halves, after Spearman and Brown.

    Of complete marks, subjects x tests; all splits where there are at most 500, else 500 drawn ones. Of an odd number
    of tests each split leaves one out. nan where halves cannot be correlated.
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
    found = [_stepped_up(marks[:, one].mean(1), marks[:, other].mean(1)) for one, other in halves]
    known = [each for each in found if not np.isnan(each)]
    return float(np.mean(known)) if known else nan


def _stepped_up(one: _Array, other: _Array) -> float:
    """The correlation of two halves stepped up to the whole; -1 at least, where halves disagree."""
    first, second = one - one.mean(), other - other.mean()
    spread = float(np.sqrt((first @ first) * (second @ second)))
    if spread <= _SAME:
        return nan
    r = float(first @ second) / spread
    return max(-1.0, 2 * r / (1 + r)) if r > -1 + _SAME else -1.0
