"""The scores of each judge alone, for a panel of several."""

from collections.abc import Mapping
from dataclasses import dataclass

from hab_ray.analysis.board import Board, board
from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.rows import Score


@dataclass(frozen=True)
class ByJudge:
    """Each judge's board, and each subject's overall scores by the panel and by each judge, in the panel's order."""

    boards: tuple[Board, ...]
    overall: Mapping[str, tuple[Score, ...]]


@section(order=30, heading="Scores by judge")
def judges(summary: Summary) -> ByJudge | None:
    """Return the boards of a panel's judges; None for a panel of one."""
    if len(summary.settings.panel) < 2:
        return None
    panel, *boards = (board(summary.scores, judge) for judge in (PANEL, *summary.settings.panel))
    by_judge = [{line.subject: line.overall for line in shown.lines} for shown in (panel, *boards)]
    return ByJudge(tuple(boards), {subject: tuple(own[subject] for own in by_judge) for subject in by_judge[0]})
