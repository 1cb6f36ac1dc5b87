"""Means with their 95 % intervals.

The mean of one subject in one dimension by one judge is over tests, its interval Student's t on the tests' means. A
subject's overall mean gives every dimension the same weight however many tests it has; as dimensions have tests of
their own, their errors are independent, and the interval takes its degrees of freedom from Welch and Satterthwaite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import fsum, sqrt
from statistics import fmean, variance

from scipy.special import stdtrit

from hab_ray.analysis.marks import OVERALL, Marks
from hab_ray.rows import Score

UPPER_TAIL = 0.975


def scores_of(found: Iterable[Marks]) -> list[Score]:
    """The score of every subject in every dimension and overall, by each judge and by the panel.

    The marks come in the order of `marks_of`. `n` and `excluded` count rows (answers); for "overall" they are sums. A
    dimension without a scored row has no mean, and then the subject has no overall mean either: one over other
    dimensions would compare with nothing.
    """
    scores = []
    for (subject, judge), group in groupby(found, lambda marks: (marks.subject, marks.judge)):
        dimensions = list(group)
        estimates = [estimate(marks.test_means()) for marks in dimensions]
        for marks, known in zip(dimensions, estimates, strict=True):
            scores.append(_score(subject, marks.dimension, judge, known, [marks]))
        scores.append(_score(subject, OVERALL, judge, combined(estimates), dimensions))
    return scores


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, the variance of that mean and its degrees of freedom; without a variance there is no interval."""

    mean: float
    variance: float | None
    freedom: float

    def interval(self, least: float = 0.0, most: float = 1.0) -> tuple[float, float] | tuple[None, None]:
        """The 95 % interval, within what a mean can be."""
        if self.variance is None:
            return None, None
        reach = float(stdtrit(self.freedom, UPPER_TAIL)) * sqrt(self.variance)
        return max(least, self.mean - reach), min(most, self.mean + reach)


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of independent values; of one value no variance is known, of none nothing."""
    if not values:
        return None
    if len(values) == 1:
        return Estimate(values[0], None, 0)
    return Estimate(fmean(values), variance(values) / len(values), len(values) - 1)


def combined(parts: Sequence[Estimate | None]) -> Estimate | None:
    """The unweighted mean of independent means; None where one of them is unknown."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    mean = fmean(part.mean for part in known)
    variances = [part.variance for part in known if part.variance is not None]
    if len(variances) < len(known):
        return Estimate(mean, None, 0)
    total = fsum(variances)
    spread = fsum(v * v / part.freedom for v, part in zip(variances, known, strict=True))
    freedom = total * total / spread if spread else fsum(part.freedom for part in known)
    return Estimate(mean, total / len(known) ** 2, freedom)


def _score(subject: str, dimension: str, judge: str, known: Estimate | None, over: Sequence[Marks]) -> Score:
    low, high = known.interval() if known else (None, None)
    return Score(
        subject=subject,
        dimension=dimension,
        judge=judge,
        mean=known.mean if known else None,
        low=low,
        high=high,
        n=sum(marks.scored for marks in over),
        excluded=sum(marks.missing for marks in over),
        truncated=sum(marks.truncated for marks in over),
    )
