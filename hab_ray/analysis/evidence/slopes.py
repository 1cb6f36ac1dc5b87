"""The slope of one quantity on another within groups, with a 95 % interval that is robust to clusters."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hab_ray.analysis.intervals import TAIL, Interval

_Array = NDArray[np.float64]
_Integers = NDArray[np.int64]


def slope(values: _Array, on: _Array, groups: _Integers, clusters: _Integers) -> Interval | None:
    """The least-squares slope of `values` on `on` with a constant for each group; None where `on` varies in none.

    The interval is Student's t on G - 1 degrees of freedom by the clusters' sums (the sandwich CR1 of a regression with
    dummies of the groups); it has no ends where there is one cluster alone.
    """
    x, y = _centred(on, groups), _centred(values, groups)
    spread = float(x @ x)
    if spread <= 1e-12 * max(1.0, float(on @ on)):
        return None
    found = float(x @ y) / spread
    sums = _sums(x * (y - found * x), clusters)
    own, count, parameters = len(sums), len(values), len(np.unique(groups)) + 1
    if own < 2 or count <= parameters:
        return Interval(found, None, None, count)
    corrected = own / (own - 1) * (count - 1) / (count - parameters)
    reach = float(stdtrit(own - 1, 1 - TAIL)) * sqrt(corrected * float(sums @ sums)) / spread
    return Interval(found, found - reach, found + reach, count)


def _centred(values: _Array, groups: _Integers) -> _Array:
    places = np.unique(groups, return_inverse=True)[1]
    means = np.bincount(places, weights=values) / np.bincount(places)
    centred: _Array = values - means[places]
    return centred


def _sums(values: _Array, clusters: _Integers) -> _Array:
    found: _Array = np.bincount(np.unique(clusters, return_inverse=True)[1], weights=values).astype(np.float64)
    return found
