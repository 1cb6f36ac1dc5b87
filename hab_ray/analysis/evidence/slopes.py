"""The slope of one quantity on another within groups, with a cluster-robust 95 % interval."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hab_ray.analysis.intervals import TAIL, Interval

_Array = NDArray[np.float64]
_Integers = NDArray[np.int64]


def slope(values: _Array, on: _Array, groups: _Integers, clusters: _Integers) -> Interval | None:
    """Return the least-squares slope of `values` on `on` with group fixed effects; None if `on` varies in no group.

    The interval is Student's t on G - 1 degrees of freedom with the CR1 sandwich variance by cluster; with a single
    cluster it has no ends.
    """
    x, y = _centred(on, groups), _centred(values, groups)
    spread = float(x @ x)
    if spread <= 1e-12 * max(1.0, float(on @ on)):
        return None
    estimate = float(x @ y) / spread
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], weights=x * (y - estimate * x))
    size, count, parameters = len(sums), len(values), len(np.unique(groups)) + 1
    if size < 2 or count <= parameters:
        return Interval(estimate, None, None, count)
    correction = size / (size - 1) * (count - 1) / (count - parameters)
    reach = float(stdtrit(size - 1, 1 - TAIL)) * sqrt(correction * float(sums @ sums)) / spread
    return Interval(estimate, estimate - reach, estimate + reach, count)


def _centred(values: _Array, groups: _Integers) -> _Array:
    numbers = np.unique(groups, return_inverse=True)[1]
    means = np.bincount(numbers, weights=values) / np.bincount(numbers)
    centred: _Array = values - means[numbers]
    return centred
