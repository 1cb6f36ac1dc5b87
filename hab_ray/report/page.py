"""Everything the report's page shows, ready for the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hab_ray.analysis.bounds import Bounds
from hab_ray.analysis.cells import OVERALL, PANEL
from hab_ray.analysis.cuts import Cut
from hab_ray.analysis.diagnosis import Finding, diagnose
from hab_ray.analysis.settings import differences
from hab_ray.report.absent import Absent, absent
from hab_ray.report.board import Board, SideBySide, board, side_by_side
from hab_ray.report.gather import Gathered
from hab_ray.report.matrix import MatrixLine, matrix
from hab_ray.report.models import ModelLine, judge_lines, subject_lines
from hab_ray.report.sample import DimensionSample, samples
from hab_ray.work import Work


@dataclass(frozen=True)
class Page:
    """The report. `titles` are the columns' titles by dimension, the overall one first.

    `judges` and `by_judge` are empty where there is one judge; `bounds` are by judge, the panel's first.
    """

    name: str
    notice: str | None
    gathered: Gathered
    titles: Mapping[str, str]
    panel: Board
    judges: tuple[Board, ...]
    by_judge: tuple[SideBySide, ...]
    findings: tuple[Finding, ...]
    bounds: Mapping[str, tuple[MatrixLine[Bounds], ...]]
    cuts: tuple[MatrixLine[Cut], ...]
    absent: Absent
    subject_models: tuple[ModelLine, ...]
    judge_models: tuple[ModelLine, ...]
    record: Mapping[str, str]
    samples: tuple[DimensionSample, ...]


def page(work: Work, gathered: Gathered, record: Mapping[str, str], notice: str | None) -> Page:
    """The page of a run."""
    summary, judges = gathered.summary, gathered.settings.judges
    several = judges if len(judges) > 1 else ()
    panel, boards = board(summary.scores, PANEL), tuple(board(summary.scores, judge) for judge in several)
    differing = differences(summary.asked)
    titles = {OVERALL: "Overall", **{dimension: rubric.title for dimension, rubric in work.rubrics.items()}}
    return Page(
        name=work.sweep.name,
        notice=notice,
        gathered=gathered,
        titles=titles,
        panel=panel,
        judges=boards,
        by_judge=side_by_side(panel, boards),
        findings=tuple(diagnose(summary.scores, summary.bounds, summary.tallies, differing, gathered.settings)),
        bounds=_by_judge(summary.bounds, (PANEL, *several), tuple(titles)),
        cuts=matrix(summary.cuts, tuple(titles)),
        absent=absent(summary.tallies),
        subject_models=subject_lines(work, summary.asked),
        judge_models=judge_lines(work),
        record=record,
        samples=samples(work.rubrics, gathered),
    )


def _by_judge(
    doubtful: Sequence[Bounds], judges: Sequence[str], dimensions: Sequence[str]
) -> dict[str, tuple[MatrixLine[Bounds], ...]]:
    lines = {judge: matrix([b for b in doubtful if b.judge == judge], dimensions) for judge in judges}
    return {judge: found for judge, found in lines.items() if found}
