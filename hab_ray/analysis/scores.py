"""Means with their 95 % intervals.

The mean of one subject in one dimension by one judge is over tests. A subject's overall mean gives every dimension the
same weight however many tests it has; dimensions have tests of their own, so their errors are independent. How the
intervals are made is said in `hab_ray.analysis.intervals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from hab_ray.analysis.intervals import Interval, combined, interval
from hab_ray.analysis.marks import OVERALL, ItemScores
from hab_ray.rows import Score


def scores_of(found: Iterable[ItemScores]) -> list[Score]:
    """The score of every subject in every dimension and overall, by each judge and by the panel.

    The marks come in the order of `marks_of`. `n`, `excluded` and `calls` count rows (answers) and generation calls;
    for "overall" they are sums. A dimension without a scored row has no mean, and then the subject has no overall mean
    either: one over other dimensions would compare with nothing.
    """
    scores = []
    for (subject, judge), group in groupby(found, lambda marks: (marks.subject, marks.judge)):
        dimensions = list(group)
        parts = [_part(marks) for marks in dimensions]
        for marks, known in zip(dimensions, parts, strict=True):
            scores.append(_score(subject, marks.dimension, judge, known, [marks]))
        scores.append(_score(subject, OVERALL, judge, combined(parts), dimensions))
    return scores


def _part(marks: ItemScores) -> Interval | None:
    values, calls = marks.known()
    return interval(values, calls) if values else None


def _score(subject: str, dimension: str, judge: str, known: Interval | None, over: Sequence[ItemScores]) -> Score:
    return Score(
        subject=subject,
        dimension=dimension,
        judge=judge,
        mean=known.mean if known else None,
        low=known.low if known else None,
        high=known.high if known else None,
        n=sum(marks.scored for marks in over),
        excluded=sum(marks.missing for marks in over),
        truncated=sum(marks.truncated for marks in over),
        calls=sum(len(set(marks.known()[1])) for marks in over),
    )
