"""Which rows came from which model, as the vendor named it: a change of it splits what a mean is taken over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.summary import Summary
from hab_ray.results import rows_in
from hab_ray.rows import State
from hab_ray.rubric import SCORE_START


@dataclass(frozen=True)
class Part:
    """The rows under one reported name: how many, and the mean of their scores, 0..1, where they have any."""

    rows: int
    mean: float | None


@dataclass(frozen=True)
class Split:
    """A subject's answers, or a judge's verdicts, in a dimension, by the names that their model was reported under."""

    name: str
    dimension: str
    of: str
    parts: Mapping[str, Part]


def splits(summary: Summary) -> Iterator[Split]:
    """Every cell whose rows were reported under two names or more; rows without a name are left out."""
    for dimension in summary.settings.tests:
        yield from _subjects(summary, dimension)
        yield from _judges(summary, dimension)


def _subjects(summary: Summary, dimension: str) -> Iterator[Split]:
    places = {test_id: at for at, test_id in enumerate(summary.settings.tests[dimension])}
    marks = {m.subject: m for m in summary.marks["judge"] if (m.judge, m.dimension) == (PANEL, dimension)}
    columns = ["test_id", "sample", "state", "model_reported"]
    for subject in summary.settings.subjects:
        found: dict[str, list[float | None]] = defaultdict(list)
        table = summary.run.responses(subject, dimension, columns=columns)
        for test_id, sample, state, reported in rows_in(table):
            if state == State.OK and reported and test_id in places and sample < summary.settings.samples:
                found[reported].append(marks[subject].by_test[places[test_id]][sample])
        yield from _split(subject, dimension, "answers", found)


def _judges(summary: Summary, dimension: str) -> Iterator[Split]:
    for judge in summary.settings.panel:
        found: dict[str, list[float | None]] = defaultdict(list)
        table = summary.run.verdicts(judge, dimension=dimension, columns=["state", "model_reported", "score"])
        for state, reported, score in rows_in(table):
            if state == State.OK and reported:
                found[reported].append(None if score is None else score / SCORE_START)
        yield from _split(judge, dimension, "verdicts", found)


def _split(name: str, dimension: str, of: str, found: Mapping[str, list[float | None]]) -> Iterator[Split]:
    if len(found) > 1:
        yield Split(name, dimension, of, {reported: _part(marks) for reported, marks in sorted(found.items())})


def _part(marks: list[float | None]) -> Part:
    known = [mark for mark in marks if mark is not None]
    return Part(len(marks), fmean(known) if known else None)
