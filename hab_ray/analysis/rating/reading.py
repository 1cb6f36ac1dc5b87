"""Reads people's ratings of a run's answers, and the judges' verdicts on the same answers."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hab_ray.analysis.intervals import Array
from hab_ray.analysis.marks import PANEL, VerdictMark
from hab_ray.analysis.rates import shares_naming
from hab_ray.analysis.rating.statistics import Rated
from hab_ray.analysis.summary import Summary
from hab_ray.results import rows_in
from hab_ray.rows import Rater

_NUMBER = re.compile(r"([0-9]+)")


@dataclass(frozen=True)
class RatedDimension:
    """People's ratings in a dimension beside each judge's: scores by judge, and issues by letter and judge.

    Raters are the same in every dimension of a run. Several judges include the panel.
    """

    dimension: str
    scores: Mapping[str, Rated]
    issues: Mapping[str, Mapping[str, Rated]]


def people_of(summary: Summary) -> tuple[tuple[str, ...], list[RatedDimension]]:
    """Return the names of the people who rated, in natural order, and each dimension with ratings."""
    verdicts: dict[str, dict[tuple[str, str, int], dict[str, VerdictMark]]] = defaultdict(lambda: defaultdict(dict))
    for subject, dimension, table in summary.run.further_verdicts(columns=VerdictMark._fields):
        for row in map(VerdictMark._make, rows_in(table)):
            if row.kind == Rater.PERSON and row.mark is not None:
                verdicts[dimension][subject, row.test_id, row.sample][row.judge] = row
    names = {name for answers in verdicts.values() for by_rater in answers.values() for name in by_rater}
    people = sorted(names, key=_by_number)
    rated = [dimension for dimension in summary.settings.tests if verdicts[dimension]]
    return tuple(people), [_dimension(summary, each, verdicts[each], people) for each in rated]


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _NUMBER.split(name)]


def _dimension(
    summary: Summary,
    dimension: str,
    verdicts: Mapping[tuple[str, str, int], Mapping[str, VerdictMark]],
    people: Sequence[str],
) -> RatedDimension:
    answers = sorted(verdicts)
    subjects = {subject for subject, _, _ in answers}
    positions = summary.settings.positions(dimension)

    def of_answers(by_subject: Mapping[str, Array]) -> Array:
        return np.array([by_subject[subject][positions[test_id], sample] for subject, test_id, sample in answers])

    panel, letters = summary.settings.panel, summary.rubrics[dimension].issue_letters()
    judges = (*panel, PANEL) if len(panel) > 1 else panel
    marks = {
        judge: of_answers({each: summary.cells[each, dimension, judge].by_test for each in subjects})
        for judge in judges
    }
    shares = {
        judge: of_answers({each: shares_naming(summary, each, judge, dimension) for each in subjects})
        for judge in panel
    }
    if len(panel) > 1:
        shares[PANEL] = np.mean(list(shares.values()), axis=0)

    by_rater = [[verdicts[answer].get(name) for answer in answers] for name in people]
    tests = np.array([positions[test_id] for _, test_id, _ in answers], dtype=np.int64)
    scores = np.array([[row.mark if row else None for row in rows] for rows in by_rater], dtype=np.float64)
    issues = {}
    for at, letter in enumerate(letters):
        named = np.array([[_names(row, letter) for row in rows] for rows in by_rater])
        if not np.isnan(named).all():
            issues[letter] = {judge: Rated(named, share[:, at], tests) for judge, share in shares.items()}
    return RatedDimension(dimension, {judge: Rated(scores, own, tests) for judge, own in marks.items()}, issues)


def _names(row: VerdictMark | None, letter: str) -> float:
    return np.nan if row is None or row.issues is None else float(letter in row.issues)
