"""The leaderboard on a terminal: with all intervals if there is room, otherwise with the overall one only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from hab_ray.analysis.board import Board, board
from hab_ray.analysis.marks import PANEL
from hab_ray.rows import Score
from hab_ray.visible import one_line

_WORD, _SHORT_WORD = 8, 5
_UNBOUNDED = 10_000
_NARROW = "Each dimension's interval is in the report; a wider terminal shows it too."


@dataclass(frozen=True)
class Leaderboard:
    """The panel's means (0..1) with the half-widths of their 95 % intervals; '-' without a mean.

    Lines never wrap: a narrow terminal shows no intervals of dimensions, shorter titles, and truncated names.
    """

    shown: Board

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the widest table that fits the terminal."""
        ranks = {line.subject: line.rank or "-" for line in self.shown.lines}
        unbounded = options.update(max_width=_UNBOUNDED)

        def fits(table: Table) -> bool:
            return Measurement.get(console, unbounded, table).maximum <= options.max_width

        wide = self._table(score_text, _WORD, 1, ranks)
        if fits(wide):
            yield wide
        else:
            narrow = self._table(_narrow_text, _SHORT_WORD, 0, ranks)
            yield narrow if fits(narrow) else self._table(_narrow_text, _SHORT_WORD, 0, {})
            yield Text(_NARROW, style="dim")

    def _table(self, in_dimension: Callable[[Score], str], word: int, gap: int, ranks: Mapping[str, str]) -> Table:
        """Build the table with title words cut at `word` letters and `gap` additional spaces between columns."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, padding=(0, gap))
        if ranks:
            table.add_column("#", justify="right", no_wrap=True)
        table.add_column("subject")  # the only column that shrinks
        for title in ("overall", *(_heading(dimension, word) for dimension in self.shown.dimensions)):
            table.add_column(title, justify="right", no_wrap=True)
        for line in self.shown.lines:
            cells = [score_text(line.overall), *map(in_dimension, line.by_dimension)]
            rank = [ranks[line.subject]] if ranks else []
            table.add_row(*rank, Text(one_line(line.subject), no_wrap=True, overflow="ellipsis"), *cells)
        return table


def leaderboard(scores: Sequence[Score], ranks: Mapping[str, tuple[int, int]] | None = None) -> Leaderboard:
    """Return the leaderboard of these scores for printing on a console; `ranks` are (first, last) by subject."""
    return Leaderboard(board(scores, PANEL, ranks))


def score_text(score: Score) -> str:
    """Format a score as `0.62 ±.07`, with the wider half of its interval."""
    if score.mean is None or score.low is None or score.high is None:
        return mean_text(score.mean)
    half = max(score.high - score.mean, score.mean - score.low)
    return f"{score.mean:.2f} ±{half:.2f}".replace("±0.", "±.")


def mean_text(mean: float | None) -> str:
    """Format a mean without its interval; '-' for None."""
    return "-" if mean is None else f"{mean:.2f}"


def _narrow_text(score: Score) -> str:
    return mean_text(score.mean)


def _heading(dimension: str, word: int) -> str:
    """Return a dimension's id with one word per line, long words cut, to be as narrow as the scores below it."""
    return "\n".join(part if len(part) <= word + 1 else f"{part[:word]}." for part in dimension.split("_"))
