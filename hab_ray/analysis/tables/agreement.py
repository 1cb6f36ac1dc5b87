"""Whether the judges of a panel agree, on scores and on each issue: alpha over all judges, kappa and AC1 by pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.agreement import LITTLE, Agreement, agreement
from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.issues import shares_naming

DRAWS, SEED = 1000, 0
MIN_ANSWERS, MIN_NAMED = 50, 10

_Array = NDArray[np.float64]
Statistic = Callable[[_Array], _Array]


@dataclass(frozen=True, slots=True)
class Agreed:
    """How far judges agree: 1 is perfect, 0 what chance would give.

    `statistic` is "alpha" (Krippendorff's, of all judges: interval on scores, nominal on an issue), or "kappa"
    (Cohen's) or "ac1" (Gwet's) of an issue and the pair in `judges`. `issue` is null for scores. `answers` were read by
    at least two of the judges; `named` says on how many of them the judge does who names the issue least. The 95 %
    interval is a percentile bootstrap over tests. With few answers or namings a value is not `reliable`.
    """

    dimension: str
    issue: str | None
    judges: str
    statistic: str
    answers: int
    named: int | None
    value: float | None
    low: float | None
    high: float | None
    reliable: bool


@dataclass(frozen=True)
class ShownAgreement:
    """Alpha of the scores overall and by dimension, and by dimension what is known of each issue."""

    overall: Agreement | None
    scores: tuple[Agreed, ...]
    issues: Mapping[str, tuple[Agreed, ...]]
    little: float = LITTLE


def _shown(summary: Summary, rows: Sequence[Agreed]) -> ShownAgreement | None:
    if not rows:
        return None
    scores = tuple(row for row in rows if row.issue is None and row.dimension != OVERALL)
    by_dimension = {
        dimension: tuple(row for row in rows if row.issue is not None and row.dimension == dimension)
        for dimension in summary.settings.tests
    }
    return ShownAgreement(agreement(summary.marks[summary.settings.truncated]), scores, by_dimension)


@analysis(Agreed, order=28, link="Agreement", heading="Whether the judges agree", layout=_shown)
def agreed(summary: Summary) -> Sequence[Agreed]:
    """Agreement by dimension with tests, of scores and then of each issue; nothing for a panel of one."""
    settings = summary.settings
    if len(settings.panel) < 2:
        return []
    return [row for dimension, tests in settings.tests.items() if tests for row in _of_dimension(summary, dimension)]


def _of_dimension(summary: Summary, dimension: str) -> Iterator[Agreed]:
    panel = summary.settings.panel
    named = np.stack([_named(summary, judge, dimension) for judge in panel])
    weights = drawn_tests(named.shape[1])
    yield _row((dimension, None, ", ".join(panel)), "alpha", _scores(summary, dimension), alpha, weights, None)
    for at, letter in enumerate(summary.rubrics[dimension].issue_letters()):
        of_issue = named[..., at]
        counts = [int(np.nansum(each)) for each in of_issue]
        everybody = (dimension, letter, ", ".join(panel))
        yield _row(everybody, "alpha", unit_sums(of_issue), alpha, weights, min(counts))
        for first, second in combinations(range(len(panel)), 2):
            both = of_issue[[first, second]]
            pair = (dimension, letter, f"{panel[first]}, {panel[second]}")
            fewest = min(counts[first], counts[second])
            for statistic, compute in (("kappa", kappa), ("ac1", ac1)):
                yield _row(pair, statistic, pair_sums(both), compute, weights, fewest)


def _row(
    what: tuple[str, str | None, str],
    statistic: str,
    by_test: _Array,
    compute: Statistic,
    weights: _Array,
    named: int | None,
) -> Agreed:
    """One value: `by_test` are sums by test that `compute` takes, the first of them a count of answers."""
    answers = int(by_test[:, 0].sum())
    value, low, high = bootstrapped(by_test, compute, weights)
    enough = answers >= MIN_ANSWERS and (named is None or named >= MIN_NAMED)
    return Agreed(
        *what,
        statistic=statistic,
        answers=answers,
        named=named,
        value=value,
        low=low,
        high=high,
        reliable=enough,
    )


def bootstrapped(
    by_test: _Array, compute: Statistic, weights: _Array
) -> tuple[float | None, float | None, float | None]:
    """A statistic of sums by test and its percentile interval; `weights` are of `drawn_tests`. None: cannot be told."""
    value = compute(by_test.sum(axis=0)[None])[0]
    drawn = compute(weights @ by_test)
    known = drawn[~np.isnan(drawn)]
    if np.isnan(value) or not len(known):
        return None if np.isnan(value) else float(value), None, None
    low, high = np.quantile(known, (0.025, 0.975))
    return float(value), float(low), float(high)


def drawn_tests(tests: int) -> _Array:
    """How often each test is in each of the bootstrap's draws: draws x tests."""
    random = np.random.default_rng(SEED)
    weights: _Array = random.multinomial(tests, np.full(tests, 1 / tests), size=DRAWS).astype(np.float64)
    return weights


def _named(summary: Summary, judge: str, dimension: str) -> _Array:
    """Tests x answers x issues: whether a judge names it in at least half of its readings, nan without any."""
    shares = [shares_naming(summary, subject, judge, dimension) for subject in summary.settings.subjects]
    joined = np.concatenate(shares, axis=1)
    named: _Array = np.where(np.isnan(joined), np.nan, joined >= 0.5)
    return named


def _scores(summary: Summary, dimension: str) -> _Array:
    """As `unit_sums`, of the judges' marks."""
    by_judge = []
    for judge in summary.settings.panel:
        found = {
            m.subject: m
            for m in summary.marks[summary.settings.truncated]
            if (m.judge, m.dimension) == (judge, dimension)
        }
        marks = [np.array(found[subject].by_test, dtype=np.float64) for subject in summary.settings.subjects]
        by_judge.append(np.concatenate(marks, axis=1))
    return unit_sums(np.stack(by_judge))


def unit_sums(values: _Array) -> _Array:
    """Judges x tests x answers to sums by test: answers, disagreement within them, values, their sum, their squares."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    squares = np.where(known, values**2, 0.0).sum(axis=0)
    paired = count > 1
    within = np.where(paired, 2 * (count * squares - total**2) / np.maximum(1, count - 1), 0.0)
    columns = [paired, within, *(np.where(paired, each, 0) for each in (count, total, squares))]
    sums: _Array = np.stack([column.sum(axis=1) for column in columns], axis=1).astype(np.float64)
    return sums


def pair_sums(values: _Array) -> _Array:
    """Two judges x tests x answers to counts by test: answers, named by both, by the first, by the second."""
    both = ~np.isnan(values).any(axis=0)
    first, second = (np.where(both, each, 0.0) for each in values)
    sums: _Array = np.stack([column.sum(axis=1) for column in (both, first * second, first, second)], axis=1)
    return sums.astype(np.float64)


def alpha(sums: _Array) -> _Array:
    """Krippendorff's alpha of `unit_sums`, summed: 1 less disagreement within answers over that of any two values."""
    _, within, count, total, squares = sums.T
    return _less(within * (count - 1), 2 * (count * squares - total**2))


def kappa(sums: _Array) -> _Array:
    """Cohen's kappa of `pair_sums`, summed."""
    count, both, first, second = sums.T
    differing = first + second - 2 * both
    return _less(differing * count, first * (count - second) + second * (count - first))


def ac1(sums: _Array) -> _Array:
    """Gwet's AC1 of `pair_sums`, summed: chance is that of a judge who names the issue as often as both do together."""
    count, both, first, second = sums.T
    named = (first + second) / 2
    by_chance = 2 * named * (count - named)
    return _less((first + second - 2 * both) * count, count**2 - by_chance)


def _less(observed: _Array, expected: _Array) -> _Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: _Array = np.where(expected > 1e-12, 1 - observed / expected, np.nan)
    return found
