"""The leaderboard: the panel's scores."""

from __future__ import annotations

from hab_ray.analysis.board import Board, board
from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary


@analysis(order=20, link="Leaderboard", heading="Leaderboard")
def leaderboard(summary: Summary) -> Board:
    """The subjects by the panel's overall mean."""
    return board(summary.scores, PANEL)
