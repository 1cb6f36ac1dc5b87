"""Bounds of means whose missing rows are unknown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

import numpy as np

from hab_ray.analysis.marks import OVERALL, PANEL, ItemScores
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary

TOLERATED_MISSING = 0.02


@dataclass(frozen=True, slots=True)
class Bounds:
    """A mean (0..1) if every missing row had scored 0 (`worst`) or 1 (`best`)."""

    subject: str
    dimension: str
    judge: str
    missing: int
    rows: int
    worst: float
    best: float


def bounds_of(found: Iterable[ItemScores]) -> list[Bounds]:
    """Return the bounds of every mean with more than 2 % of its rows missing, and of the overall means they enter."""
    doubts = []
    for _, group in groupby(found, lambda marks: (marks.subject, marks.judge)):
        asked = [marks for marks in group if len(marks.by_test)]
        doubtful = [marks for marks in asked if marks.missing > TOLERATED_MISSING * marks.rows]
        doubts += [_bounds(marks.dimension, [marks]) for marks in doubtful]
        if doubtful:
            doubts.append(_bounds(OVERALL, asked))
    return doubts


def _bounds(dimension: str, over: Sequence[ItemScores]) -> Bounds:
    return Bounds(
        subject=over[0].subject,
        dimension=dimension,
        judge=over[0].judge,
        missing=sum(marks.missing for marks in over),
        rows=sum(marks.rows for marks in over),
        worst=fmean(fmean(np.nan_to_num(marks.by_test, nan=0.0).ravel()) for marks in over),
        best=fmean(fmean(np.nan_to_num(marks.by_test, nan=1.0).ravel()) for marks in over),
    )


@analysis(Bounds, order=40, heading=f"Bounds where more than {100 * TOLERATED_MISSING:.0f} % of the rows are missing")
def bounds(summary: Summary) -> Sequence[Bounds]:
    """Return the bounds by judge, the panel's first; a single judge is omitted."""
    found = bounds_of(summary.marks[summary.settings.truncated])
    panel = summary.settings.panel
    judges = (PANEL, *panel) if len(panel) > 1 else (PANEL,)
    return [each for judge in judges for each in found if each.judge == judge]
