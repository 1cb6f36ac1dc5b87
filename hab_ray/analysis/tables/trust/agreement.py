"""Agreement of a panel's judges on scores and on each issue: alpha over all judges, kappa and AC1 by pair."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from hab_ray.analysis.agreement import (
    LOW_ALPHA,
    Statistic,
    ac1,
    agreement,
    alpha,
    bootstrapped,
    drawn,
    kappa,
    majority,
    marks_by_dimension,
    nominal_alpha,
    nominal_difference,
    pair_sums,
    unit_sums,
)
from hab_ray.analysis.intervals import FEW_CALLS, Array, sums_by
from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.rates import shares_naming
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary

MIN_ANSWERS, MIN_NAMED = 50, 10


@dataclass(frozen=True, slots=True)
class Agreed:
    """Agreement of judges: 1 is perfect, 0 is chance.

    `statistic` is "alpha" (Krippendorff's, of all judges: interval on scores, nominal on an issue), or "kappa"
    (Cohen's) or "ac1" (Gwet's) of an issue and the pair in `judges`. `issue` is null for scores. Alpha overall
    takes chance within each dimension. With replicates, a judge's score is the mean of its readings of an answer, and
    an issue counts as named by their majority, by lot for a tie. `answers` were read by at least two judges; `named`
    counts those on which the judge who names the issue least does so. The 95 % interval is a percentile bootstrap over
    generation calls, null if all tests of a dimension are from one, or if no draw changes the value. A value is not
    `reliable` with few answers, few named issues or few `calls`: the generation calls of these answers; overall, those
    of the dimension that has the fewest.
    """

    dimension: str
    issue: str | None
    judges: str
    statistic: str
    answers: int
    calls: int
    named: int | None
    value: float | None
    low: float | None
    high: float | None
    reliable: bool

    @property
    def is_low(self) -> bool:
        """Whether scores of single answers are of little use: alpha is below .4, or its interval includes chance."""
        return self.value is not None and (self.value < LOW_ALPHA or (self.low is not None and self.low <= 0))


@analysis(Agreed, order=28, heading="Agreement between judges")
def agreed(summary: Summary) -> Sequence[Agreed]:
    """Return the agreement on scores overall, then on scores and issues by dimension; nothing for a panel of one."""
    settings = summary.settings
    if len(settings.panel) < 2:
        return []
    by_dimension = [tuple(_of_dimension(summary, each)) for each, tests in settings.tests.items() if tests]
    overall = [_overall(summary, [rows[0] for rows in by_dimension])] if len(by_dimension) > 1 else []
    return [*overall, *(row for rows in by_dimension for row in rows)]


def _overall(summary: Summary, scores: Sequence[Agreed]) -> Agreed:
    value, low, high = agreement(summary.marks[summary.settings.truncated])
    answers, calls = sum(row.answers for row in scores), min(row.calls for row in scores)
    row = replace(scores[0], dimension=OVERALL, answers=answers, calls=calls, value=value, low=low, high=high)
    return replace(row, reliable=answers >= MIN_ANSWERS and calls >= FEW_CALLS)


def _of_dimension(summary: Summary, dimension: str) -> Iterator[Agreed]:
    panel, calls = summary.settings.panel, summary.settings.calls_of(dimension)
    named = np.stack([_named(summary, judge, dimension) for judge in panel])
    (weights,) = drawn([len(set(calls))])

    def row(
        issue: str | None, judges: str, statistic: str, compute: Statistic, by_test: Array, least: int | None
    ) -> Agreed:
        by_call = sums_by(by_test, calls)
        answers, read = int(by_call[:, 0].sum()), int((by_call[:, 0] > 0).sum())
        enough = answers >= MIN_ANSWERS and read >= FEW_CALLS and (least is None or least >= MIN_NAMED)
        ends = bootstrapped(by_call, compute, weights)
        return Agreed(dimension, issue, judges, statistic, answers, read, least, *ends, enough)

    all_judges = ", ".join(panel)
    yield row(None, all_judges, "alpha", alpha, unit_sums(_scores(summary, dimension)), None)
    for at, letter in enumerate(summary.rubrics[dimension].issue_letters()):
        of_issue = named[..., at]
        yield row(
            letter, all_judges, "alpha", nominal_alpha, unit_sums(of_issue, nominal_difference), _least_named(of_issue)
        )
        for first, second in combinations(range(len(panel)), 2):
            pair = of_issue[[first, second]]
            sums, least = pair_sums(pair), _least_named(pair)
            yield row(letter, f"{panel[first]}, {panel[second]}", "kappa", kappa, sums, least)
            yield row(letter, f"{panel[first]}, {panel[second]}", "ac1", ac1, sums, least)


def _named(summary: Summary, judge: str, dimension: str) -> Array:
    """Return tests x answers x issues: whether most of a judge's readings name it, half for a tie; nan without any."""
    shares = [shares_naming(summary, subject, judge, dimension) for subject in summary.settings.subjects]
    return majority(np.concatenate(shares, axis=1))


def _least_named(named: Array) -> int:
    """Return on how many of the answers read by at least two judges the judge who names an issue least does so."""
    shared = (~np.isnan(named)).sum(axis=0) > 1
    return int(min(np.nansum(each[shared]) for each in named))


def _scores(summary: Summary, dimension: str) -> Array:
    return marks_by_dimension(summary.marks[summary.settings.truncated])[dimension][0]
