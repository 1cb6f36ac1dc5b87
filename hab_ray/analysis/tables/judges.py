"""The scores of each judge alone, where the panel has several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hab_ray.analysis.board import Board, board
from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.rows import Score


@dataclass(frozen=True)
class SideBySide:
    """One subject's overall scores: the panel's, then each judge's."""

    subject: str
    overall: tuple[Score, ...]


@dataclass(frozen=True)
class ByJudge:
    """Each judge's board, and all overall scores of a subject in one line, ranked as by the panel."""

    boards: tuple[Board, ...]
    lines: tuple[SideBySide, ...]


@section(order=30, link="By judge", heading="By judge")
def judges(summary: Summary) -> ByJudge | None:
    """The boards of a panel's judges; None for a panel of one."""
    if len(summary.settings.panel) < 2:
        return None
    panel = board(summary.scores, PANEL)
    boards = tuple(board(summary.scores, judge) for judge in summary.settings.panel)
    return ByJudge(boards, _side_by_side((panel, *boards)))


def _side_by_side(boards: Sequence[Board]) -> tuple[SideBySide, ...]:
    by_subject = [{line.subject: line.overall for line in shown.lines} for shown in boards]
    return tuple(SideBySide(line.subject, tuple(b[line.subject] for b in by_subject)) for line in boards[0].lines)
