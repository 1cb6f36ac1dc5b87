"""The leaderboard as a table: subjects by overall mean, one score a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hab_ray.analysis.cells import OVERALL
from hab_ray.rows import Score


@dataclass(frozen=True)
class Line:
    """One subject's scores; `by_dimension` in the order of the board's dimensions."""

    subject: str
    overall: Score
    by_dimension: tuple[Score, ...]


@dataclass(frozen=True)
class Board:
    """The scores that one judge, or the panel, gave."""

    judge: str
    dimensions: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class SideBySide:
    """One subject's overall scores, a board each."""

    subject: str
    overall: tuple[Score, ...]


def side_by_side(first: Board, others: Sequence[Board]) -> tuple[SideBySide, ...]:
    """The overall scores of the same subjects on several boards, ranked as on the first."""
    boards = [{line.subject: line.overall for line in shown.lines} for shown in (first, *others)]
    return tuple(SideBySide(line.subject, tuple(b[line.subject] for b in boards)) for line in first.lines)


def board(scores: Sequence[Score], judge: str) -> Board:
    """A judge's board, the best overall mean first; subjects without one last, by name."""
    own = [score for score in scores if score.judge == judge]
    dimensions = tuple(dict.fromkeys(score.dimension for score in own if score.dimension != OVERALL))
    at = {(score.subject, score.dimension): score for score in own}
    lines = [
        Line(subject, at[subject, OVERALL], tuple(at[subject, dimension] for dimension in dimensions))
        for subject in dict.fromkeys(score.subject for score in own)
    ]
    return Board(judge, dimensions, tuple(sorted(lines, key=_rank)))


def _rank(line: Line) -> tuple[float, str]:
    mean = line.overall.mean
    return (1.0 if mean is None else -mean), line.subject
