"""Paired differences between two sets of marks over the tests that both have, corrected for how many there are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from hab_ray.analysis.intervals import Interval, combined, interval, sums_by
from hab_ray.analysis.marks import ItemScores
from hab_ray.analysis.signflips import p_of_mean, p_value
from hab_ray.config.preregistration import Correction

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ahead:
    """How far one is ahead of another on their shared tests of a dimension; `sums` are by generation call."""

    difference: Interval
    sums: _Array
    sd: float

    @property
    def calls(self) -> int:
        """How many generation calls the shared tests come from."""
        return len(self.sums)


def ahead(one: ItemScores, other: ItemScores) -> Ahead | None:
    """Compare two sets of marks of the same tests; None where they share none."""
    calls: Sequence[Hashable] = one.calls or range(len(one.by_test))
    rows = zip(one.test_means(), other.test_means(), calls, strict=True)
    both = [(a - b, call) for a, b, call in rows if a is not None and b is not None]
    if not both:
        return None
    steps, named = [step for step, _ in both], [call for _, call in both]
    sums = sums_by(np.array(steps), named)
    deviation = len(sums) / len(steps) * float(np.std(sums, ddof=1)) if len(sums) > 1 else 0.0
    return Ahead(interval(steps, named, -1.0, 1.0), sums, deviation)


def p_of(parts: Sequence[Ahead]) -> float:
    """The p-value of the sign-flip test, of one dimension or of the plain mean of several."""
    if len(parts) == 1:
        return p_value(parts[0].sums)
    return p_of_mean([part.sums / part.difference.tests for part in parts])


def mean_of(parts: Sequence[Ahead | None]) -> Interval | None:
    """The plain mean of the dimensions' differences; None where one is unknown."""
    return combined([part.difference if part else None for part in parts])


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values after Holm: what each would have to be below alone."""
    order = np.argsort(p_values, kind="stable")
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def adjusted(p_values: Sequence[float], correction: Correction) -> Sequence[float]:
    """The p-values of a family after its correction."""
    match correction:
        case Correction.HOLM:
            return holm(p_values)
        case Correction.BONFERRONI:
            return [min(1.0, len(p_values) * p) for p in p_values]
        case Correction.BENJAMINI_HOCHBERG:
            return [float(q) for q in false_discovery_control(p_values)]
        case Correction.NONE:
            return p_values


def of_known(
    correct: Callable[[Sequence[float]], Iterable[float]], p_values: Sequence[float | None]
) -> list[float | None]:
    """The p-values of a family after its correction for those that there are; None stays None."""
    known = [p for p in p_values if p is not None]
    corrected = iter(correct(known) if known else ())
    return [None if p is None else float(next(corrected)) for p in p_values]


def rank_ranges(subjects: Iterable[str], better: Iterable[tuple[str, str]]) -> Mapping[str, tuple[int, int]]:
    """The first and last rank that a subject may have, where `better` are the pairs (better, worse) told apart."""
    names = list(subjects)
    above = {name: 0 for name in names}
    below = {name: 0 for name in names}
    for one, other in better:
        above[other] += 1
        below[one] += 1
    return {name: (1 + above[name], len(names) - below[name]) for name in names}
