"""How far people agree with one another and with a judge, where both the answers and the people are samples.

An interval has to hold for other answers and for other people, so that its variance has two parts: what differs from
test to test, and what differs from rater to rater. A few raters who are all severe move every answer alike; clustered
by test alone, the interval of a judge's difference from five raters whose severity has an SD of .1 covers 55 %.
Differences of means take the variance of Cameron, Gelbach and Miller (2011), by rater plus by test less by both,
and with J raters Student's t on J - 1 degrees of freedom: too wide where raters hardly differ, right where they
do. Ratios such as alpha take the sum of two jackknives, which leave out a test or a rater, and Satterthwaite's degrees
of freedom. `python -m benchmarks.people` prints how often both cover.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hab_ray.analysis.agreement import alpha_terms, kappa_terms, one_less, units
from hab_ray.analysis.intervals import TAIL, sums_by

FEW_RATERS = 5
_MAX_GROUPS = 50
_Array = NDArray[np.float64]
_Sums = Callable[["_Given"], _Array]
_Terms = Callable[[_Array], tuple[_Array, _Array]]


@dataclass(frozen=True)
class Rated:
    """Answers of one dimension: what raters gave (raters x answers), what a judge did, and the test of each answer.

    Values are marks from 0 to 1, or 1 and 0 for whether an issue is named; nan where there is none. Several dimensions
    have the same raters in the same order.
    """

    raters: _Array
    judge: _Array
    tests: NDArray[np.int64]

    def of(self, raters: Sequence[int]) -> Rated:
        """The same with some of the raters."""
        return replace(self, raters=self.raters[list(raters)])

    def answers(self, chosen: NDArray[np.bool_]) -> Rated:
        """The same of some of the answers."""
        return Rated(self.raters[:, chosen], self.judge[chosen], self.tests[chosen])

    def known(self) -> Rated:
        """The answers that the judge and at least one rater have a value for."""
        return self.answers(~np.isnan(self.judge) & ~np.isnan(self.raters).all(axis=0))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval; None where it cannot be told. `answers` and `raters` are those behind it."""

    value: float | None
    low: float | None
    high: float | None
    answers: int
    raters: int


def alpha_among(parts: Sequence[Rated]) -> Estimate:
    """Krippendorff's alpha of the raters, chance taken within each dimension; of answers that two or more rated.

    Of fewer than FEW_RATERS the interval is for other tests and these raters alone: leaving out one of three tells too
    little of others.
    """
    shared = [part.answers((~np.isnan(part.raters)).sum(axis=0) > 1) for part in parts]
    return _ratio(shared, _among, alpha_terms, fewest=FEW_RATERS)


def alpha_with(parts: Sequence[Rated]) -> Estimate:
    """Krippendorff's alpha of the judge and the mean of the raters, as if that were one rater."""
    return _ratio([part.known() for part in parts], _beside, alpha_terms)


def kappa_with(part: Rated) -> Estimate:
    """Cohen's kappa of the judge and the majority of the raters, in whom a tie counts as naming the issue."""
    return _ratio([part.known()], _majority, kappa_terms)


def difference(parts: Sequence[Rated]) -> Estimate:
    """The judge's mean less the raters', over every rating of a judged answer; dimensions have the same weight."""
    found = [part for each in parts if (part := each.known()).tests.size]
    raters, answers = _count_raters(found), sum(part.tests.size for part in found)
    if not found or len(found) < len(parts):
        return Estimate(None, None, None, answers, raters)
    means, by_both = [], []
    for part in found:
        steps = part.judge - part.raters
        given = ~np.isnan(steps)
        means.append(float(steps[given].mean()))
        spread = np.where(given, steps - means[-1], 0.0) / given.sum() / len(found)
        by_both.append(sums_by(spread.T, part.tests))
    sums = np.concatenate(by_both)
    tests = len(sums)
    of_tests, of_both = _square(sums.sum(axis=1), tests), _square(sums.ravel(), tests)
    of_raters = _square(sums.sum(axis=0), raters) if raters > 1 else 0.0
    variance = max(of_tests + of_raters - of_both, of_tests, of_raters)
    return _estimate(float(np.mean(means)), variance, raters - 1 if raters > 1 else tests - 1, answers, raters)


def _square(sums: _Array, clusters: int) -> float:
    """The variance of a sum of independent clusters."""
    return float(sums @ sums) * clusters / (clusters - 1) if clusters > 1 else np.inf


def _count_raters(parts: Sequence[Rated]) -> int:
    known = [(~np.isnan(part.raters)).any(axis=1) for part in parts]
    return int(np.any(known, axis=0).sum()) if known else 0


def _freedom(of_tests: float, tests: int, of_raters: float, raters: int) -> float:
    """Satterthwaite's degrees of freedom of a sum of both variances."""
    squares = of_tests**2 / max(1, tests - 1) + of_raters**2 / max(1, raters - 1)
    return (of_tests + of_raters) ** 2 / squares if 0 < squares < np.inf else tests - 1


def _estimate(value: float, variance: float, freedom: float, answers: int, raters: int) -> Estimate:
    if freedom < 1 or not np.isfinite(variance):
        return Estimate(value, None, None, answers, raters)
    reach = float(stdtrit(freedom, 1 - TAIL)) * sqrt(variance)
    return Estimate(value, max(-1.0, value - reach), min(1.0, value + reach), answers, raters)


def _among(given: _Given) -> _Array:
    return units(given.count, given.total, given.squares)


def _beside(given: _Given) -> _Array:
    mean = given.mean()
    return units(np.where(given.count > 0, 2.0, 0.0), given.judge + mean, given.judge**2 + mean**2)


def _majority(given: _Given) -> _Array:
    named = given.mean() >= 0.5
    columns = np.broadcast_arrays(np.ones_like(named), given.judge * named, given.judge, named)
    return np.where((given.count > 0)[..., None], np.stack(columns, axis=-1), 0.0)


def _ratio(parts: Sequence[Rated], sums: _Sums, terms: _Terms, fewest: int = 2) -> Estimate:
    """1 less a ratio of sums over dimensions; raters, or groups of many, are left out in turn if there are `fewest`."""
    answers, raters = sum(part.tests.size for part in parts), _count_raters(parts)
    by_test = [sums_by(sums(_given(part)), part.tests) for part in parts]
    whole = [terms(part.sum(axis=0)) for part in by_test]
    value = float(_value(whole))
    if np.isnan(value):
        return Estimate(None, None, None, answers, raters)
    of_tests, of_raters, tests = _by_tests(by_test, terms), 0.0, sum(map(len, by_test))
    if raters >= fewest:
        groups = _groups(parts)
        of_raters = _jackknifed(_value([terms(sums(_given(part, 1 - groups)).sum(axis=1)) for part in parts]))
    freedom = _freedom(of_tests, tests, of_raters, raters)
    return _estimate(value, of_tests + of_raters, freedom, answers, raters)


@dataclass(frozen=True)
class _Given:
    """How many raters gave a value to each answer, their sum and that of squares, and the judge's value.

    The arrays may have one more axis before that of answers.
    """

    count: _Array
    total: _Array
    squares: _Array
    judge: _Array

    def mean(self) -> _Array:
        """The raters' mean, 0 where there is none."""
        found: _Array = self.total / np.maximum(self.count, 1)
        return found


def _given(part: Rated, chosen: _Array | None = None) -> _Given:
    """Of all raters, or of sets of them (sets x raters, 1 for a member)."""
    members = np.ones(len(part.raters)) if chosen is None else chosen
    known = (~np.isnan(part.raters)).astype(np.float64)
    values = np.where(known > 0, part.raters, 0.0)
    return _Given(members @ known, members @ values, members @ values**2, part.judge)


def _groups(parts: Sequence[Rated]) -> _Array:
    """Groups x raters, 1 for a member: each who rated is one, or one of as many groups as are left out in turn."""
    rated = np.flatnonzero(np.any([(~np.isnan(part.raters)).any(axis=1) for part in parts], axis=0))
    groups = np.zeros((min(len(rated), _MAX_GROUPS), len(parts[0].raters)))
    groups[np.arange(len(rated)) % len(groups), rated] = 1
    return groups


def _jackknifed(values: _Array) -> float:
    """The variance by values that each leave something out; what cannot be told without it is passed over."""
    known = values[np.isfinite(values)]
    return (len(known) - 1) / len(known) * float(((known - known.mean()) ** 2).sum()) if len(known) > 1 else 0.0


def _value(terms: Sequence[tuple[_Array, _Array]]) -> _Array:
    """1 less the ratio of sums over dimensions."""
    differing, by_chance = np.zeros(()), np.zeros(())
    for part, part_by_chance in terms:
        differing, by_chance = differing + part, by_chance + part_by_chance
    return one_less(differing, by_chance)


def _by_tests(by_test: Sequence[_Array], terms: _Terms) -> float:
    """The variance by leaving out each test of each dimension in turn."""
    whole = [terms(part.sum(axis=0)) for part in by_test]
    variance = 0.0
    for at, part in enumerate(by_test):
        if len(part):
            others = [each for place, each in enumerate(whole) if place != at]
            variance += _jackknifed(_value([terms(part.sum(axis=0) - part), *others]))
    return variance
