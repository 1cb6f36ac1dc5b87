"""Rows by the model name that the vendor reported: a mean over several names mixes models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.summary import Summary
from hab_ray.results import rows_in
from hab_ray.rows import State
from hab_ray.rubric import SCORE_START


@dataclass(frozen=True)
class Part:
    """The number of rows under one reported name, and the mean of their scores (0..1), if any."""

    rows: int
    mean: float | None


@dataclass(frozen=True)
class Split:
    """A subject's answers or a judge's verdicts (`of`) in a dimension, by reported model name."""

    name: str
    dimension: str
    of: str
    parts: Mapping[str, Part]


def splits(summary: Summary) -> Iterator[Split]:
    """Yield every cell whose rows have two reported names or more; rows without one are ignored."""
    for dimension in summary.settings.tests:
        yield from _subjects(summary, dimension)
        yield from _judges(summary, dimension)


def _subjects(summary: Summary, dimension: str) -> Iterator[Split]:
    positions = summary.settings.positions(dimension)
    marks = {m.subject: m for m in summary.marks["judge"] if (m.judge, m.dimension) == (PANEL, dimension)}
    columns = ["test_id", "sample", "state", "model_reported"]
    for subject in summary.settings.subjects:
        found: dict[str, list[float]] = defaultdict(list)
        table = summary.run.responses(subject, dimension, columns=columns)
        for test_id, sample, state, reported in rows_in(table):
            if state == State.OK and reported and test_id in positions and sample < summary.settings.samples:
                found[reported].append(float(marks[subject].by_test[positions[test_id], sample]))
        yield from _split(subject, dimension, "answers", found)


def _judges(summary: Summary, dimension: str) -> Iterator[Split]:
    for judge in summary.settings.panel:
        found: dict[str, list[float]] = defaultdict(list)
        table = summary.run.verdicts(judge, dimension=dimension, columns=["state", "model_reported", "score"])
        for state, reported, score in rows_in(table):
            if state == State.OK and reported:
                found[reported].append(nan if score is None else score / SCORE_START)
        yield from _split(judge, dimension, "verdicts", found)


def _split(name: str, dimension: str, of: str, found: Mapping[str, list[float]]) -> Iterator[Split]:
    if len(found) > 1:
        yield Split(name, dimension, of, {reported: _part(marks) for reported, marks in sorted(found.items())})


def _part(marks: list[float]) -> Part:
    known = [mark for mark in marks if not isnan(mark)]
    return Part(len(marks), fmean(known) if known else None)
