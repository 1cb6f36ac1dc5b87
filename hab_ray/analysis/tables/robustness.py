"""Robustness of the subjects' order: without single judges, with other points, and over halves of the tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hab_ray.analysis.agreement import majority
from hab_ray.analysis.evidence.items import item_rest, split_half
from hab_ray.analysis.intervals import Array, mean_of_known
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.rates import shares_naming
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.generalisability import complete_marks
from hab_ray.analysis.tables.leaderboard import ranks_of
from hab_ray.rubric import SCORE_START, Rubric

RANK, RELIABILITY, TEST = "rank", "reliability", "test"
AS_IT_IS, NO_FLOOR, ONE_POINT, ANY_ISSUE = "as_it_is", "no_floor", "one_point", "any_issue"
SPLIT_HALF, SEPARATE_NOBODY, WRONG_WAY = "split_half", "separate_nobody", "reversed"
MIN_SUBJECTS, _LISTED, _TOLERANCE = 3, 10, 1e-12


@dataclass(frozen=True, slots=True)
class Robust:
    """A row of one of three kinds.

    - `rank`: a `subject`'s overall rank (1 is best, ties share the better one), and mean as `value`. `name` is
      `as_it_is` for the panel's scores, `without JUDGE`, or says which other points issues cost: `no_floor` (as the
      rubric says, but scores may be below 0), `one_point` (the share of issues not named) or `any_issue` (the share of
      answers without an issue).
    - `reliability`: `name` is `split_half` (of the panel's scores over all of the dimension's `tests`, by
      Spearman-Brown), or the number of the `tests` that all judges scored for all subjects which `separate_nobody` (all
      subjects have the same mark) or are `reversed` (a correlation below 0).
    - `test`: a test's correlation with the mean of the others over subjects, null if it separates nobody; `name` is
      the test's id.

    The last two kinds need three subjects, and two tests that all judges scored for all of them.
    """

    kind: str
    dimension: str
    name: str
    subject: str | None
    value: float | None
    rank: int | None
    tests: int | None


@dataclass(frozen=True)
class Shown:
    """Ranks by subject under each alternative; by dimension, the reliability with its counts and the worst tests.

    `allowed` holds the first and last rank of each subject on the leaderboard.
    """

    alternatives: tuple[str, ...]
    ranks: Mapping[str, Mapping[str, Robust]]
    reliability: Mapping[str, Mapping[str, Robust]]
    worst: Mapping[str, tuple[Robust, ...]]
    allowed: Mapping[str, tuple[int, int]]


def _shown(summary: Summary, rows: Sequence[Robust]) -> Shown | None:
    ranked = [row for row in rows if row.kind == RANK]
    names = dict.fromkeys(row.name for row in ranked)
    subjects = dict.fromkeys(row.subject for row in ranked if row.subject is not None)
    at = {(row.subject, row.name): row for row in ranked}
    reliable = [row for row in rows if row.kind == RELIABILITY]
    dimensions = dict.fromkeys(row.dimension for row in reliable)
    tests = sorted((row for row in rows if row.kind == TEST and (row.value or 0) < 0), key=lambda row: row.value or 0)
    shown = Shown(
        tuple(names),
        {subject: {name: at[subject, name] for name in names} for subject in subjects},
        {d: {row.name: row for row in reliable if row.dimension == d} for d in dimensions},
        {d: tuple(row for row in tests if row.dimension == d)[:_LISTED] for d in dimensions},
        ranks_of(summary),
    )
    return shown if ranked or reliable else None


@analysis(Robust, order=39, heading="Robustness of ranks", layout=_shown)
def robustness(summary: Summary) -> Sequence[Robust]:
    """Return ranks under every alternative, in the leaderboard's order, then reliability and tests by dimension.

    There are no ranks if fewer than two subjects have an overall score.
    """
    order = {
        score.subject: -score.mean
        for score in summary.scores
        if score.judge == PANEL and score.dimension == OVERALL and score.mean is not None
    }
    rows: list[Robust] = []
    if len(order) > 1:
        subjects = sorted(order, key=lambda subject: (order[subject], subject))
        means = {AS_IT_IS: [-order[subject] for subject in subjects], **_alternatives(summary, subjects)}
        rows += (row for name, found in means.items() for row in _ranked(name, subjects, found))
    return [*rows, *(row for dimension in summary.settings.tests for row in _of_tests(summary, dimension))]


def _ranked(name: str, subjects: Sequence[str], means: Sequence[float]) -> Iterator[Robust]:
    for subject, mean in zip(subjects, means, strict=True):
        known = not np.isnan(mean)
        rank = 1 + sum(other > mean + _TOLERANCE for other in means) if known else None
        yield Robust(RANK, OVERALL, name, subject, float(mean) if known else None, rank, None)


def _alternatives(summary: Summary, subjects: Sequence[str]) -> dict[str, list[float]]:
    """Return the subjects' overall means without each judge, if others are left, and with other points."""
    panel = summary.settings.panel

    def without(judge: str, subject: str, dimension: str) -> float:
        return _mean_of(
            np.stack([summary.cells[subject, dimension, other].by_test for other in panel if other != judge])
        )

    found = {
        f"without {judge}": [
            float(np.mean([without(judge, subject, dimension) for dimension in summary.settings.tests]))
            for subject in subjects
        ]
        for judge in (panel if len(panel) > 1 else ())
    }
    by_points = {subject: _means_by_points(summary, subject) for subject in subjects}
    return found | {name: [by_points[subject][name] for subject in subjects] for name in _POINTS}


def _means_by_points(summary: Summary, subject: str) -> dict[str, float]:
    means: dict[str, list[float]] = {name: [] for name in _POINTS}
    for dimension, rubric in summary.rubrics.items():
        named = np.stack([shares_naming(summary, subject, judge, dimension) for judge in summary.settings.panel])
        for name, points in _POINTS.items():
            means[name].append(_mean_of(points(named, rubric)))
    return {name: float(np.mean(found)) for name, found in means.items()}


_POINTS: Mapping[str, Callable[[Array, Rubric], Array]] = {
    NO_FLOOR: lambda named, rubric: (
        1 - named @ [float(issue.deduction) for issue in rubric.judging.issues] / SCORE_START
    ),
    ONE_POINT: lambda named, _: 1 - named.mean(axis=-1),
    # 1 for answers of which most of a judge's readings name no issue, half if the readings tie on one
    ANY_ISSUE: lambda named, _: 1 - majority(named).max(axis=-1),
}


def _mean_of(marks: Array) -> float:
    """Return the mean over tests of the answers marked by all judges (judges x tests x samples); nan without any."""
    return float(mean_of_known(mean_of_known(marks.mean(axis=0), axis=1), axis=0))


def _of_tests(summary: Summary, dimension: str) -> Iterator[Robust]:
    marks, ids, _ = complete_marks(summary, dimension)
    if marks.shape[0] < MIN_SUBJECTS or marks.shape[1] < 2:
        return
    by_panel = marks.mean(axis=2)
    scores = [summary.cells[subject, dimension, PANEL].test_means for subject in summary.settings.subjects]
    found, reliability = item_rest(by_panel), split_half(np.stack(scores))
    constant = int((np.ptp(by_panel, axis=0) <= _TOLERANCE).sum())
    value = None if np.isnan(reliability) else reliability
    yield Robust(RELIABILITY, dimension, SPLIT_HALF, None, value, None, len(summary.settings.tests[dimension]))
    for name, count in {SEPARATE_NOBODY: constant, WRONG_WAY: int((found < 0).sum())}.items():
        yield Robust(RELIABILITY, dimension, name, None, float(count), None, len(ids))
    for id_, value in zip(ids, found, strict=True):
        yield Robust(TEST, dimension, id_, None, None if np.isnan(value) else float(value), None, None)
