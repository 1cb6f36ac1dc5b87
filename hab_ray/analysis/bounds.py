"""How far a mean could move if the missing rows were known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from hab_ray.analysis.cells import OVERALL, Cell

TOLERATED_MISSING = 0.02


@dataclass(frozen=True, slots=True)
class Bounds:
    """The mean (0..1) of a cell if every missing row had scored 0 (`worst`) or 1 (`best`)."""

    subject: str
    dimension: str
    judge: str
    missing: int
    rows: int
    worst: float
    best: float


def bounds(found: Iterable[Cell]) -> list[Bounds]:
    """The bounds of every cell with more than 2 % of its rows missing, and of the overall means they enter."""
    doubts = []
    for _, group in groupby(found, lambda cell: (cell.subject, cell.judge)):
        asked = [cell for cell in group if cell.rows]
        doubtful = [cell for cell in asked if cell.missing > TOLERATED_MISSING * cell.rows]
        doubts += [_bounds(cell.dimension, [cell]) for cell in doubtful]
        if doubtful:
            doubts.append(_bounds(OVERALL, asked))
    return doubts


def _bounds(dimension: str, over: Sequence[Cell]) -> Bounds:
    return Bounds(
        subject=over[0].subject,
        dimension=dimension,
        judge=over[0].judge,
        missing=sum(cell.missing for cell in over),
        rows=sum(cell.rows for cell in over),
        worst=fmean(fmean(cell.filled(0.0)) for cell in over),
        best=fmean(fmean(cell.filled(1.0)) for cell in over),
    )
