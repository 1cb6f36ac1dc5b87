"""Means with their 95 % intervals.

The mean of one subject in one dimension by one judge is over tests. A subject's overall mean gives every dimension the
same weight, however many tests it has; dimensions share no tests, so their errors are independent. See
`hab_ray.analysis.intervals` for how the intervals are made.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from hab_ray.analysis.intervals import Interval, combined, ends, interval
from hab_ray.analysis.marks import OVERALL, ItemScores
from hab_ray.rows import Score


def scores_of(marks: Iterable[ItemScores]) -> list[Score]:
    """Return the score of every subject in every dimension and overall, by each judge and by the panel.

    The marks must be in the order of `marks_of`. `n` and `excluded` count answers, `calls` generation calls; for
    "overall" they are sums. A dimension without a scored answer has no mean, and its subject then has no overall mean
    either, which would not be comparable.
    """
    scores = []
    for (subject, judge), group in groupby(marks, lambda each: (each.subject, each.judge)):
        dimensions = list(group)
        parts = [mean_of_tests(each) for each in dimensions]
        for each, part in zip(dimensions, parts, strict=True):
            scores.append(_score((subject, each.dimension, judge), part, [each]))
        scores.append(_score((subject, OVERALL, judge), combined(parts), dimensions))
    return scores


def mean_of_tests(marks: ItemScores) -> Interval | None:
    """Return the mean over tests with its interval, or None without a mark."""
    values, calls = marks.known()
    return interval(values, calls) if values else None


def _score(of: tuple[str, str, str], found: Interval | None, over: Sequence[ItemScores]) -> Score:
    return Score(
        *of,
        *ends(found),
        n=sum(marks.scored for marks in over),
        excluded=sum(marks.missing for marks in over),
        truncated=sum(marks.truncated for marks in over),
        calls=sum(len(set(marks.known()[1])) for marks in over),
    )
