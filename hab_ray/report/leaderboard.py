"""The leaderboard on a terminal: with all intervals if there is room, otherwise with the overall one only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from hab_ray.analysis.board import Board, board
from hab_ray.analysis.marks import PANEL
from hab_ray.rows import Score
from hab_ray.visible import decimal, one_line

_WORD, _SHORT_WORD = 14, 5
_NAME = 12
_UNBOUNDED = 10_000
_SHORT = {
    "ask_clarifying_questions": "clari-\nfy",
    "avoid_value_manipulation": "values",
    "correct_misinformation": "mis-\ninfo",
    "defer_important_decisions": "defer",
    "encourage_learning": "learn-\ning",
    "maintain_social_boundaries": "bound-\naries",
}
_NARROW = "Each dimension's interval is in the report; a wider terminal shows it too."


@dataclass(frozen=True)
class Leaderboard:
    """The panel's means (0..1) with their 95 % intervals; '-' without a mean.

    A narrow terminal shows no intervals of dimensions, shorter titles, and names cut to no less than `_NAME` columns; a
    narrower one wraps the lines, if it is printed without cropping.
    """

    shown: Board

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the widest table that fits the terminal."""
        ranks = {line.subject: line.rank or "-" for line in self.shown.lines}
        unbounded = options.update(max_width=_UNBOUNDED)

        def fits(table: Table) -> bool:
            return Measurement.get(console, unbounded, table).maximum <= options.max_width

        wide = self._table(score_text, _heading, 1, ranks)
        if fits(wide):
            yield wide
        else:
            narrow = self._table(mean_text, _short_heading, 0, ranks)
            if not fits(narrow):
                narrow = self._table(mean_text, _short_heading, 0, {})
                cut = max(0, max((cell_len(one_line(subject)) for subject in ranks), default=0) - _NAME)
                narrow.width = max(options.max_width, Measurement.get(console, unbounded, narrow).maximum - cut)
            yield narrow
            yield Text(_NARROW, style="dim")

    def _table(
        self, in_dimension: Callable[[Score], str], heading: Callable[[str], str], gap: int, ranks: Mapping[str, str]
    ) -> Table:
        """Build the table with `gap` additional spaces between columns."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, padding=(0, gap))
        if ranks:
            table.add_column("#", justify="right", no_wrap=True)
        table.add_column("subject")  # the only column that shrinks
        for title in ("overall", *(heading(dimension) for dimension in self.shown.dimensions)):
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
    """Format a score with the ends of its interval, as `0.62 .55-.69`."""
    if score.mean is None or score.low is None or score.high is None:
        return mean_text(score)
    return f"{decimal(score.mean, 2)} {_end_text(score.low)}-{_end_text(score.high)}"


def _end_text(end: float) -> str:
    text = decimal(end, 2)
    return text[1:] if text.startswith("0") else text[:-1]


def mean_text(score: Score) -> str:
    """Format a score without its interval; '-' without a mean."""
    return "-" if score.mean is None else decimal(score.mean, 2)


def _short_heading(dimension: str) -> str:
    return _SHORT.get(dimension) or _heading(dimension, _SHORT_WORD)


def _heading(dimension: str, word: int = _WORD) -> str:
    """Return a dimension's id with one word per line, long words cut, to be as narrow as the scores below it."""
    return "\n".join(part if len(part) <= word + 1 else f"{part[:word]}." for part in dimension.split("_"))
