"""The leaderboard: the panel's overall scores, with the ranks that paired differences allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

import pyarrow.compute as pc

from hab_ray.analysis.board import Board, board
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.pairs import rank_ranges
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.differences import differences
from hab_ray.analysis.tables.trust.agreement import Agreed, agreed
from hab_ray.catalog.prices import NANO

STEPS = 20


@dataclass(frozen=True, slots=True)
class Rank:
    """A subject's overall mean by the panel, and its possible ranks: `first` to `last`.

    `first` - 1 subjects are significantly better, by their overall difference after Holm's correction for all pairs.
    Ranks are null without an overall mean.
    """

    subject: str
    first: int | None
    last: int | None
    mean: float | None
    low: float | None
    high: float | None
    answers: int
    calls: int


@dataclass(frozen=True)
class ShownBoard:
    """The board for the page.

    `low` and `high` (0..1) are the ends of the overall axis, `coldest` and `warmest` the least and greatest mean of a
    dimension. `dollars` is the mean cost of a subject's answer, if its calls have a price. `judges` is how far all
    judges agree on all scores, if there are several.
    """

    board: Board
    low: float
    high: float
    coldest: float
    warmest: float
    dollars: Mapping[str, float]
    judges: Agreed | None


def _shown(summary: Summary, rows: Sequence[Rank]) -> ShownBoard:
    shown = board(summary.scores, PANEL, _ranges(rows))
    low, high = axis([end for row in rows for end in (row.low, row.mean, row.high) if end is not None])
    means = [score.mean for line in shown.lines for score in line.by_dimension if score.mean is not None]
    coldest, warmest = min(means, default=0.0), max(means, default=1.0)
    return ShownBoard(shown, low, high, coldest, warmest, _dollars(summary), next(iter(agreed(summary)), None))


def axis(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis for these values (0..1): the twentieths around them, or 0 and 1 without values."""
    if not values:
        return 0.0, 1.0
    low, high = floor(min(values) * STEPS), ceil(max(values) * STEPS)
    return max(0, min(low, high - 1)) / STEPS, min(STEPS, max(high, low + 1)) / STEPS


def _dollars(summary: Summary) -> dict[str, float]:
    responses = {name: summary.run.responses(name, columns=["cost_nanousd"]) for name in summary.settings.subjects}
    means = {name: pc.mean(table.column("cost_nanousd")).as_py() for name, table in responses.items()}
    return {name: mean / NANO for name, mean in means.items() if mean}


def _ranges(rows: Sequence[Rank]) -> dict[str, tuple[int, int]]:
    return {row.subject: (row.first, row.last) for row in rows if row.first is not None and row.last is not None}


@analysis(Rank, order=20, heading="Leaderboard", layout=_shown)
def leaderboard(summary: Summary) -> Sequence[Rank]:
    """Return the subjects by the panel's overall mean."""
    overall = {s.subject: s for s in summary.scores if s.judge == PANEL and s.dimension == OVERALL}
    ranked = [subject for subject, score in overall.items() if score.mean is not None]
    differing = [row for row in differences(summary) if row.dimension == OVERALL and row.differs]
    better = [(r.subject, r.other) if (r.difference or 0) > 0 else (r.other, r.subject) for r in differing]
    ranges = rank_ranges(ranked, better)
    return [
        Rank(
            subject=line.subject,
            first=ranges[line.subject][0] if line.subject in ranges else None,
            last=ranges[line.subject][1] if line.subject in ranges else None,
            mean=line.overall.mean,
            low=line.overall.low,
            high=line.overall.high,
            answers=line.overall.n,
            calls=line.overall.calls,
        )
        for line in board(summary.scores, PANEL).lines
    ]


def ranks_of(summary: Summary) -> dict[str, tuple[int, int]]:
    """Return the first and last rank of each subject with an overall mean."""
    return _ranges(leaderboard(summary))
