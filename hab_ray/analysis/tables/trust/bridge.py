"""Judges of the run compared with those of an earlier study on the same answers, to link both studies' scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.rows import IssueShift, ScoreMap, Shift


@dataclass(frozen=True)
class Link:
    """All judges compared with one earlier judge. Kappas are by dimension and issue, in the judges' order."""

    rater: str
    shifts: tuple[Shift, ...]
    judges: tuple[str, ...]
    kappas: Mapping[tuple[str, str], tuple[IssueShift | None, ...]]
    maps: tuple[ScoreMap, ...]


@section(order=34, heading="Comparison with earlier judges")
def bridge(summary: Summary) -> Sequence[Link]:
    """Return one comparison per judge of an earlier study."""
    found = summary.bridge
    return [
        Link(
            rater=rater,
            shifts=tuple(shifts),
            judges=(judges := tuple(dict.fromkeys(shift.judge for shift in found.shifts if shift.rater == rater))),
            kappas=_kappas([issue for issue in found.issues if issue.rater == rater], judges),
            maps=tuple(level for level in found.maps if level.rater == rater),
        )
        for rater, shifts in groupby(found.shifts, lambda shift: shift.rater)
    ]


def _kappas(
    issues: Sequence[IssueShift], judges: Sequence[str]
) -> dict[tuple[str, str], tuple[IssueShift | None, ...]]:
    by_cell = {(each.dimension, each.issue, each.judge): each for each in issues}
    cells = sorted({(each.dimension, each.issue) for each in issues})
    return {cell: tuple(by_cell.get((*cell, judge)) for judge in judges) for cell in cells}
