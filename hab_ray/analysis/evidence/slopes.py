"""The slope of one quantity on another within groups, with a cluster-robust 95 % interval."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hab_ray.analysis.intervals import TAIL, Array, Interval

_ROUNDING = 1e-9
_Integers = NDArray[np.int64]


def slope(values: Array, on: Array, groups: _Integers, clusters: _Integers) -> Interval | None:
    """Return the least-squares slope of `values` on `on` with group fixed effects; None if `on` varies in no group.

    The interval is Student's t with the bias-reduced sandwich variance by cluster (CR2), in which a cluster's leverage
    is its share of the spread of `on`. The degrees of freedom are one less than the clusters of equal leverage that
    would be as uneven (Carter, Schnepel and Steigerwald 2017): a few clusters may hold nearly all of the spread. With
    fewer than two of these the interval has no ends.
    """
    x, y = _centred(on, groups), _centred(values, groups)
    spread = float(x @ x)
    if spread <= 1e-12 * max(1.0, float(on @ on)):
        return None
    estimate = float(x @ y) / spread
    numbers, count = np.unique(clusters, return_inverse=True)[1], len(values)
    sums, leverages = np.bincount(numbers, weights=x * (y - estimate * x)), np.bincount(numbers, weights=x * x) / spread
    effective, free = 1 / float(leverages @ leverages), count - len(np.unique(groups))
    if effective < 2 - _ROUNDING or free < 2:
        return Interval(estimate, None, None, count)
    variance = count / free * float((sums * sums / (1 - leverages)).sum()) / spread**2
    reach = float(stdtrit(effective - 1, 1 - TAIL)) * sqrt(variance)
    return Interval(estimate, estimate - reach, estimate + reach, count)


def varies(on: Array, groups: _Integers) -> NDArray[np.bool_]:
    """Return which values belong to a group in which `on` varies; the others do not count in a slope."""
    numbers = np.unique(groups, return_inverse=True)[1]
    return np.bincount(numbers, weights=np.abs(_centred(on, groups)))[numbers] > _ROUNDING


def _centred(values: Array, groups: _Integers) -> Array:
    numbers = np.unique(groups, return_inverse=True)[1]
    means = np.bincount(numbers, weights=values) / np.bincount(numbers)
    return values - means[numbers]
