"""Agreement of people with one another and with a judge, where both answers and people are samples.

An interval has to generalise to other answers and other people, so its variance has two parts: between tests and
between raters. A few severe raters shift every answer alike: clustered by test alone, the interval of a judge's
difference from five raters whose severity has an SD of .1 covers 55 %. Differences of means use the two-way clustered
variance of Cameron, Gelbach and Miller (2011), by rater plus by test less by both, and with J raters Student's t on
J - 1 degrees of freedom: too wide if raters hardly differ, right if they do. Ratios such as alpha use the sum of two
jackknives, over tests and over raters, and Satterthwaite's degrees of freedom. `python -m benchmarks.people` prints
the coverage of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hab_ray.analysis.agreement import alpha_terms, chance_corrected, kappa_terms, majority, units
from hab_ray.analysis.intervals import TAIL, Array, sums_by

FEW_RATERS = 5
_MAX_GROUPS, _ROUNDING = 50, 1e-18
_Sums = Callable[["_Moments"], Array]
_Terms = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Rated:
    """Answers of one dimension: the raters' values (raters x answers), a judge's, and the test of each answer.

    Values are marks (0..1), or 1 and 0 for whether an issue is named; nan if missing. A judge's value of an issue is
    the share of its readings, or of a panel's judges, that name it. Raters are the same, in the same order, in every
    dimension.
    """

    raters: Array
    judge: Array
    tests: NDArray[np.int64]

    def of(self, raters: Sequence[int]) -> Rated:
        """Return the same answers with some of the raters."""
        return replace(self, raters=self.raters[list(raters)])

    def answers(self, chosen: NDArray[np.bool_]) -> Rated:
        """Return some of the answers with all raters."""
        return Rated(self.raters[:, chosen], self.judge[chosen], self.tests[chosen])

    def known(self) -> Rated:
        """Return the answers with a value by the judge and at least one rater."""
        return self.answers(~np.isnan(self.judge) & ~np.isnan(self.raters).all(axis=0))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval, None where undefined, and the number of answers and raters behind it.

    Without any spread between tests or raters, the interval is undefined: the error is unknown, and not 0.
    """

    value: float | None
    low: float | None
    high: float | None
    answers: int
    raters: int


def alpha_among(parts: Sequence[Rated]) -> Estimate:
    """Return Krippendorff's alpha of the raters over answers with two ratings or more, chance within each dimension.

    With fewer than FEW_RATERS the interval generalises to other tests only: leaving out one of three raters says too
    little about others.
    """
    shared = [part.answers((~np.isnan(part.raters)).sum(axis=0) > 1) for part in parts]
    return _ratio(shared, _among_raters, alpha_terms, min_raters=FEW_RATERS)


def alpha_with(parts: Sequence[Rated]) -> Estimate:
    """Return Krippendorff's alpha of the judge and the raters' mean, taken as one rater."""
    return _ratio([part.known() for part in parts], _judge_and_mean, alpha_terms)


def kappa_with(part: Rated) -> Estimate:
    """Return Cohen's kappa of the judge's and the raters' majority, a tie on either side counting half.

    It has no value if one side names the issue for no answer, or for all: then kappa is 0 whatever the other side does.
    """
    known = part.known()
    estimate = _ratio([known], _judge_and_majority, kappa_terms)
    if all(0 < rate < 1 for rate in named_rates(known)):
        return estimate
    return replace(estimate, value=None, low=None, high=None)


def named_rates(part: Rated) -> tuple[float, float]:
    """Return the rates at which the judge's and the raters' majority name the issue; 0 without answers."""
    if not part.tests.size:
        return 0.0, 0.0
    return float(majority(part.judge).mean()), float(majority(_moments(part).mean()).mean())


def difference(parts: Sequence[Rated]) -> Estimate:
    """Return the judge's mean less the raters', over all ratings of judged answers, with equal weight per dimension.

    Without an interval if a dimension does not show its share of the error: it has one test, or one of several raters.
    """
    known = [part for each in parts if (part := each.known()).tests.size]
    raters, answers = int(_who_rated(known).sum()), sum(part.tests.size for part in known)
    if not known or len(known) < len(parts):
        return Estimate(None, None, None, answers, raters)
    means, by_both = [], []
    for part in known:
        differences = part.judge - part.raters
        is_rated = ~np.isnan(differences)
        means.append(float(differences[is_rated].mean()))
        deviations = np.where(is_rated, differences - means[-1], 0.0) / is_rated.sum() / len(known)
        by_both.append(sums_by(deviations.T, part.tests))
    value = float(np.mean(means))
    if any(len(own) < 2 or _who_rated([part]).sum() < min(2, raters) for own, part in zip(by_both, known, strict=True)):
        return Estimate(value, None, None, answers, raters)
    of_tests = sum(_clustered(own.sum(axis=1), len(own)) for own in by_both)
    of_both = sum(_clustered(own.ravel(), len(own)) for own in by_both)
    of_raters = _clustered(np.concatenate(by_both).sum(axis=0), raters) if raters > 1 else 0.0
    variance = max(of_tests + of_raters - of_both, of_tests, of_raters)
    freedom = raters - 1 if raters > 1 else sum(len(own) - 1 for own in by_both)
    return _estimate(value, variance, freedom, answers, raters)


def _clustered(sums: Array, clusters: int) -> float:
    """Return the variance of a total over independent clusters with these sums."""
    return float(sums @ sums) * clusters / (clusters - 1)


def _who_rated(parts: Sequence[Rated]) -> NDArray[np.bool_]:
    """Return for each rater whether they rated any of the answers."""
    rated: NDArray[np.bool_] = np.any([(~np.isnan(part.raters)).any(axis=1) for part in parts], axis=0)
    return rated


def _estimate(value: float, variance: float, freedom: float, answers: int, raters: int) -> Estimate:
    if freedom < 1 or not _ROUNDING < variance < np.inf:
        return Estimate(value, None, None, answers, raters)
    reach = float(stdtrit(freedom, 1 - TAIL)) * sqrt(variance)
    return Estimate(value, max(-1.0, value - reach), min(1.0, value + reach), answers, raters)


def _among_raters(moments: _Moments) -> Array:
    return units(moments.count, moments.total, moments.squares)


def _judge_and_mean(moments: _Moments) -> Array:
    mean = moments.mean()
    return units(np.where(moments.count > 0, 2.0, 0.0), moments.judge + mean, moments.judge**2 + mean**2)


def _judge_and_majority(moments: _Moments) -> Array:
    judge, people = majority(moments.judge), majority(moments.mean())
    columns = np.broadcast_arrays(np.ones_like(people), judge * people, judge, people)
    return np.where((moments.count > 0)[..., None], np.stack(columns, axis=-1), 0.0)


def _ratio(parts: Sequence[Rated], sums: _Sums, terms: _Terms, min_raters: int = 2) -> Estimate:
    """Return 1 less a ratio of sums over dimensions; its jackknife over raters needs `min_raters`."""
    answers, rated = sum(part.tests.size for part in parts), _who_rated(parts)
    raters = int(rated.sum())
    by_test = [sums_by(sums(_moments(part)), part.tests) for part in parts]
    totals = [terms(part.sum(axis=0)) for part in by_test]
    value = float(_value(totals))
    if np.isnan(value):
        return Estimate(None, None, None, answers, raters)
    of_tests, of_raters = 0.0, 0.0
    for at, part in enumerate(by_test):
        if len(part):
            others = [each for place, each in enumerate(totals) if place != at]
            of_tests += _jackknifed(_value([terms(part.sum(axis=0) - part), *others]))
    if raters >= min_raters:
        groups = _groups(rated)
        of_raters = _jackknifed(_value([terms(sums(_moments(part, 1 - groups)).sum(axis=1)) for part in parts]))
    tests = sum(map(len, by_test))
    squares = of_tests**2 / max(1, tests - 1) + of_raters**2 / max(1, raters - 1)
    freedom = (of_tests + of_raters) ** 2 / squares if 0 < squares < np.inf else tests - 1  # Satterthwaite's
    return _estimate(value, of_tests + of_raters, freedom, answers, raters)


@dataclass(frozen=True)
class _Moments:
    """Number, sum and sum of squares of the raters' values of each answer, and the judge's value.

    The arrays may have one more axis before that of answers.
    """

    count: Array
    total: Array
    squares: Array
    judge: Array

    def mean(self) -> Array:
        """Return the raters' mean, 0 without a rating."""
        return self.total / np.maximum(self.count, 1)


def _moments(part: Rated, sets: Array | None = None) -> _Moments:
    """Return the moments of all raters, or of sets of them (sets x raters, 1 for a member)."""
    members = np.ones(len(part.raters)) if sets is None else sets
    known = (~np.isnan(part.raters)).astype(np.float64)
    values = np.where(known > 0, part.raters, 0.0)
    return _Moments(members @ known, members @ values, members @ values**2, part.judge)


def _groups(rated: NDArray[np.bool_]) -> Array:
    """Divide the raters into at most `_MAX_GROUPS` groups for the jackknife: groups x raters, 1 for a member."""
    raters = np.flatnonzero(rated)
    groups = np.zeros((min(len(raters), _MAX_GROUPS), len(rated)))
    groups[np.arange(len(raters)) % len(groups), raters] = 1
    return groups


def _jackknifed(values: Array) -> float:
    """Return the jackknife variance of leave-one-out values, ignoring undefined ones; infinite for fewer than two."""
    known = values[np.isfinite(values)]
    return (len(known) - 1) / len(known) * float(((known - known.mean()) ** 2).sum()) if len(known) > 1 else np.inf


def _value(terms: Sequence[tuple[Array, Array]]) -> Array:
    observed, expected = np.zeros(()), np.zeros(())
    for part_observed, part_expected in terms:
        observed, expected = observed + part_observed, expected + part_expected
    return chance_corrected(observed, expected)
