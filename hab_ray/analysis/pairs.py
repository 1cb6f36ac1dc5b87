"""Paired differences between two sets of marks over their shared tests, and corrections for multiple comparisons."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from hab_ray.analysis.intervals import Array, Interval, combined, interval, mean_by_call, sums_by
from hab_ray.analysis.marks import ItemScores
from hab_ray.analysis.signflips import p_of_mean
from hab_ray.config.preregistration import Correction

_DECIMALS = 12  # of a standard deviation, so that equal differences have one of 0


@dataclass(frozen=True)
class Ahead:
    """The mean lead of one set of marks over another on shared tests of a dimension; `sums` are by generation call.

    `sd` is the standard deviation of the calls' differences, nan for a single call.
    """

    difference: Interval
    sums: Array
    sd: float

    @property
    def calls(self) -> int:
        """Number of generation calls behind the shared tests."""
        return len(self.sums)


def ahead(one: ItemScores, other: ItemScores) -> Ahead | None:
    """Compare two sets of marks of the same tests; None if they have no marked test in common."""
    differences = one.test_means - other.test_means
    both = np.flatnonzero(~np.isnan(differences)).tolist()
    if not len(both):
        return None
    all_calls = one.test_calls
    calls = [all_calls[at] for at in both]
    known = differences[both].tolist()
    return Ahead(interval(known, calls, -1.0, 1.0), sums_by(differences[both], calls), deviation(known, calls))


def deviation(differences: Sequence[float], calls: Sequence[Hashable]) -> float:
    """Return the standard deviation of tests' differences by generation call; nan for a single call.

    It is the error of their mean (CR2) times the root of the number of calls. For calls of equal size that is the
    standard deviation of their means; for others it does not grow with the mean, as that of their sums would.
    """
    _, error, freedom = mean_by_call(differences, calls)
    return round(error * sqrt(len(set(calls))), _DECIMALS) if freedom else nan


def p_of(parts: Sequence[Ahead]) -> float:
    """Return the p-value of the sign-flip test for one dimension, or for the unweighted mean of several."""
    return p_of_mean([part.sums for part in parts], [part.difference.tests for part in parts])


def over_dimensions(parts: Sequence[Ahead | None]) -> tuple[int, Interval | None, float | None]:
    """Return the shared tests, the unweighted mean of the dimensions' differences, and its p-value.

    Mean and p-value are None if the difference of a dimension is unknown.
    """
    known = [part for part in parts if part is not None]
    mean = combined([part.difference if part else None for part in parts])
    return sum(part.difference.tests for part in known), mean, p_of(known) if mean else None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values with Holm's correction."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(np.argsort(p_values, kind="stable")):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return the p-values with Benjamini and Hochberg's correction."""
    adjusted, lowest, count = [0.0] * len(p_values), 1.0, len(p_values)
    for at, rank in zip(np.argsort(p_values)[::-1], range(count, 0, -1), strict=True):
        lowest = adjusted[at] = min(lowest, count / rank * p_values[at])
    return adjusted


def adjusted(p_values: Sequence[float], correction: Correction) -> Sequence[float]:
    """Return the p-values of a family with the given correction."""
    match correction:
        case Correction.HOLM:
            return holm(p_values)
        case Correction.BONFERRONI:
            return [min(1.0, len(p_values) * p) for p in p_values]
        case Correction.BENJAMINI_HOCHBERG:
            return benjamini_hochberg(p_values)
        case Correction.NONE:
            return p_values


def of_known(
    correct: Callable[[Sequence[float]], Iterable[float]], p_values: Sequence[float | None]
) -> list[float | None]:
    """Correct the p-values of a family that are known; None stays None and does not count."""
    known = [p for p in p_values if p is not None]
    corrected = iter(correct(known) if known else ())
    return [None if p is None else float(next(corrected)) for p in p_values]


def rank_ranges(subjects: Iterable[str], better: Iterable[tuple[str, str]]) -> Mapping[str, tuple[int, int]]:
    """Return each subject's possible first and last rank; `better` holds the significant pairs (better, worse)."""
    names, pairs = list(subjects), list(better)
    above, below = Counter(worse for _, worse in pairs), Counter(one for one, _ in pairs)
    return {name: (1 + above[name], len(names) - below[name]) for name in names}
