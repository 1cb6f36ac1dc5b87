"""Everything the report's page shows, ready for the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hab_ray.analysis.bounds import Bounds, bounds
from hab_ray.analysis.cells import OVERALL, PANEL, Cell, cells, is_truncated
from hab_ray.analysis.diagnosis import Finding, diagnose
from hab_ray.analysis.fates import fates, tally
from hab_ray.analysis.scores import scores_of
from hab_ray.analysis.settings import asked, differences
from hab_ray.report.absent import Absent, absent
from hab_ray.report.board import Board, SideBySide, board, side_by_side
from hab_ray.report.gather import Gathered
from hab_ray.report.matrix import MatrixLine, matrix
from hab_ray.report.models import ModelLine, judge_lines, subject_lines
from hab_ray.report.sample import DimensionSample, samples
from hab_ray.rows import Score
from hab_ray.work import Work


@dataclass(frozen=True)
class Cut:
    """A cell with truncated answers: its mean (0..1) with them judged, and without them."""

    subject: str
    dimension: str
    truncated: int
    judged: float | None
    excluded: float | None


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


def page(
    work: Work, gathered: Gathered, scores: Sequence[Score], record: Mapping[str, str], notice: str | None
) -> Page:
    """The page of a run with these scores."""
    settings, rows = gathered.settings, (gathered.responses, gathered.verdicts)
    several = settings.judges if len(settings.judges) > 1 else ()
    panel, boards = board(scores, PANEL), tuple(board(scores, judge) for judge in several)
    sent = asked(gathered.responses)
    arranged = cells(*rows, settings)
    doubtful = bounds(arranged)
    found = fates(*rows, settings)
    tallies = tally(found)
    titles = {OVERALL: "Overall", **{dimension: rubric.title for dimension, rubric in work.rubrics.items()}}
    return Page(
        name=work.sweep.name,
        notice=notice,
        gathered=gathered,
        titles=titles,
        panel=panel,
        judges=boards,
        by_judge=side_by_side(panel, boards),
        findings=tuple(diagnose(scores, doubtful, tallies, differences(sent), settings)),
        bounds=_by_judge(doubtful, (PANEL, *several), tuple(titles)),
        cuts=matrix(_cuts(gathered, arranged), tuple(titles)),
        absent=absent(found, tallies),
        subject_models=subject_lines(work, sent),
        judge_models=judge_lines(work),
        record=record,
        samples=samples(work.rubrics, gathered),
    )


def _by_judge(
    doubtful: Sequence[Bounds], judges: Sequence[str], dimensions: Sequence[str]
) -> dict[str, tuple[MatrixLine[Bounds], ...]]:
    lines = {judge: matrix([b for b in doubtful if b.judge == judge], dimensions) for judge in judges}
    return {judge: found for judge, found in lines.items() if found}


def _cuts(gathered: Gathered, arranged: Sequence[Cell]) -> list[Cut]:
    """The panel's cells with truncated answers, both ways; `arranged` are the cells as the sweep wants them."""
    if not any(map(is_truncated, gathered.responses)):
        return []

    def scores_if(truncated: Literal["judge", "exclude"]) -> list[Score]:
        if truncated == gathered.settings.truncated:
            return scores_of(arranged)
        settings = replace(gathered.settings, truncated=truncated)
        return scores_of(cells(gathered.responses, gathered.verdicts, settings))

    return [
        Cut(a.subject, a.dimension, a.truncated, a.mean, b.mean)
        for a, b in zip(scores_if("judge"), scores_if("exclude"), strict=True)
        if a.truncated and a.judge == PANEL
    ]
