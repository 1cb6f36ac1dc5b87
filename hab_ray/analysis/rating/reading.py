"""Reads from a run what people gave to its answers, and what the judges gave to the same ones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.bridge import Said
from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.rating.statistics import Rated
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.issues import shares_naming
from hab_ray.results import rows_in
from hab_ray.rows import Rater, State
from hab_ray.rubric import SCORE_START

_Array = NDArray[np.float64]
_NUMBER = re.compile(r"([0-9]+)")


@dataclass(frozen=True)
class RatedDimension:
    """The answers of a dimension that people rated, from every judge's side: scores, and each issue by its letter.

    Raters are the same in every dimension of a run. The panel is among the judges where there are several.
    """

    dimension: str
    scores: Mapping[str, Rated]
    issues: Mapping[str, Mapping[str, Rated]]


def people_of(summary: Summary) -> tuple[tuple[str, ...], list[RatedDimension]]:
    """The people who rated, by name and number, and each dimension in which somebody did."""
    given: dict[str, dict[tuple[str, str, int], dict[str, Said]]] = defaultdict(lambda: defaultdict(dict))
    for subject, dimension, table in summary.run.further_verdicts(columns=Said._fields):
        for row in map(Said._make, rows_in(table)):
            if row.kind == Rater.PERSON and row.state == State.OK and row.score is not None:
                given[dimension][subject, row.test_id, row.sample][row.judge] = row
    people = sorted({name for answers in given.values() for said in answers.values() for name in said}, key=_by_number)
    known = [dimension for dimension in summary.settings.tests if given[dimension]]
    return tuple(people), [_dimension(summary, each, given[each], people) for each in known]


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _NUMBER.split(name)]


def _dimension(
    summary: Summary,
    dimension: str,
    given: Mapping[tuple[str, str, int], Mapping[str, Said]],
    people: Sequence[str],
) -> RatedDimension:
    answers = sorted(given)
    places = {test_id: at for at, test_id in enumerate(summary.settings.tests[dimension])}
    tests = np.array([places[test_id] for _, test_id, _ in answers], dtype=np.int64)
    said = [[given[answer].get(name) for answer in answers] for name in people]
    scores = np.array([[np.nan if row is None else (row.score or 0) / SCORE_START for row in rows] for rows in said])
    judged = _judged(summary, dimension, answers, places)
    letters = summary.rubrics[dimension].issue_letters()
    named = {
        letter: np.array(
            [
                [np.nan if row is None or row.issues is None else float(letter in row.issues) for row in rows]
                for rows in said
            ]
        )
        for letter in letters
    }
    shares = _shares(summary, dimension, answers, places)
    issues = {
        letter: {judge: Rated(named[letter], _half(found[:, at]), tests) for judge, found in shares.items()}
        for at, letter in enumerate(letters)
        if not np.isnan(named[letter]).all()
    }
    return RatedDimension(dimension, {judge: Rated(scores, marks, tests) for judge, marks in judged.items()}, issues)


def _half(shares: _Array) -> _Array:
    found: _Array = np.where(np.isnan(shares), np.nan, shares >= 0.5)
    return found


def _judges(summary: Summary) -> tuple[str, ...]:
    panel = summary.settings.panel
    return (*panel, PANEL) if len(panel) > 1 else panel


def _judged(
    summary: Summary, dimension: str, answers: Sequence[tuple[str, str, int]], places: Mapping[str, int]
) -> dict[str, _Array]:
    """Every judge's marks of some answers, nan where it gave none."""
    found = {}
    for judge in _judges(summary):
        marks = {subject: summary.given[subject, dimension, judge] for subject in summary.settings.subjects}
        found[judge] = np.array([marks[subject][places[test_id], sample] for subject, test_id, sample in answers])
    return found


def _shares(
    summary: Summary, dimension: str, answers: Sequence[tuple[str, str, int]], places: Mapping[str, int]
) -> dict[str, _Array]:
    """Answers x issues by judge: the share of its readings that name an issue; for the panel their mean."""
    found: dict[str, _Array] = {}
    for judge in summary.settings.panel:
        named = {each: shares_naming(summary, each, judge, dimension) for each in {answer[0] for answer in answers}}
        found[judge] = np.array([named[subject][places[test_id], sample] for subject, test_id, sample in answers])
    if len(found) > 1:
        found[PANEL] = np.mean(list(found.values()), axis=0)
    return found
