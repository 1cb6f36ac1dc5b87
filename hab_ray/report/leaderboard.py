"""The leaderboard on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from hab_ray.analysis.cells import PANEL
from hab_ray.report.board import board
from hab_ray.report.visible import visible
from hab_ray.rows import Score

_WORD = 8


def leaderboard(scores: Sequence[Score]) -> Table:
    """The panel's means (0..1) with half the width of their 95 % intervals; '-' where there is no mean."""
    shown = board(scores, PANEL)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("subject", overflow="fold")
    for title in ("overall", *map(_heading, shown.dimensions)):
        table.add_column(title, justify="right")
    for line in shown.lines:
        cells = [score_text(score) for score in (line.overall, *line.by_dimension)]
        table.add_row(Text(visible(line.subject)), *cells)
    return table


def score_text(score: Score) -> str:
    """A score as `0.62 ±.07`; of an interval cut at 0 or 1 the wider half counts."""
    if score.mean is None:
        return "-"
    if score.low is None or score.high is None:
        return f"{score.mean:.2f}"
    half = max(score.high - score.mean, score.mean - score.low)
    return f"{score.mean:.2f} ±{half:.2f}".replace("±0.", "±.")


def _heading(dimension: str) -> str:
    """A dimension's id, a word a line, long words cut: as narrow as the scores below it."""
    words = dimension.split("_")
    return "\n".join(word if len(word) <= _WORD + 1 else f"{word[:_WORD]}." for word in words)
