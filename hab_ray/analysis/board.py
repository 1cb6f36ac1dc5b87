"""The leaderboard as a table: subjects by overall mean, one column per score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hab_ray.analysis.marks import OVERALL
from hab_ray.rows import Score


@dataclass(frozen=True)
class Line:
    """One subject's scores; `by_dimension` in the order of the board's dimensions; `rank` like "3-7", or empty."""

    subject: str
    overall: Score
    by_dimension: tuple[Score, ...]
    rank: str = ""


@dataclass(frozen=True)
class Board:
    """The scores by one judge or the panel."""

    judge: str
    dimensions: tuple[str, ...]
    lines: tuple[Line, ...]


def board(scores: Sequence[Score], judge: str, ranks: Mapping[str, tuple[int, int]] | None = None) -> Board:
    """Return a judge's board, best overall mean first, then subjects without one by name; `ranks` are (first, last)."""
    own = [score for score in scores if score.judge == judge]
    dimensions = tuple(dict.fromkeys(score.dimension for score in own if score.dimension != OVERALL))
    at = {(score.subject, score.dimension): score for score in own}
    lines = [
        Line(
            subject,
            at[subject, OVERALL],
            tuple(at[subject, dimension] for dimension in dimensions),
            rank_text(*ranks[subject]) if ranks and subject in ranks else "",
        )
        for subject in dict.fromkeys(score.subject for score in own)
    ]
    lines.sort(key=lambda line: (1.0 if line.overall.mean is None else -line.overall.mean, line.subject))
    return Board(judge, dimensions, tuple(lines))


def rank_text(first: int, last: int) -> str:
    """Return a range of ranks, such as "3-7"."""
    return f"{first}" if first == last else f"{first}-{last}"
