"""The data of figures, from the tables of a run's analyses: best subjects first, dimensions in the run's order."""

from __future__ import annotations

from dataclasses import dataclass

from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.rates import IssueRate
from hab_ray.analysis.tables.differences import PairedDifference
from hab_ray.analysis.tables.leaderboard import Rank
from hab_ray.analysis.tables.trust.agreement import Agreed
from hab_ray.analysis.tables.trust.people import PeopleAgreed
from hab_ray.errors import ConfigError
from hab_ray.results import Run
from hab_ray.rows import R, from_table

JUDGES, PEOPLE, BOTH = "judges", "people", "judges and people"


@dataclass(frozen=True, slots=True)
class Bar:
    """A subject's overall mean by the panel (0..1), with its 95 % interval, if known, and its possible ranks."""

    subject: str
    mean: float
    low: float | None
    high: float | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Heat:
    """The share (0..1) of a subject's answers in a dimension for which the panel names an issue, with its text."""

    subject: str
    dimension: str
    issue: str
    rate: float
    text: str


@dataclass(frozen=True, slots=True)
class Point:
    """Krippendorff's alpha of scores in a dimension, or overall, with its 95 % interval, if known, and between whom."""

    dimension: str
    alpha: float
    low: float | None
    high: float | None
    reliable: bool
    between: str = JUDGES


@dataclass(frozen=True, slots=True)
class Pair:
    """The difference of two subjects' overall means, and whether it is significant after Holm's correction."""

    subject: str
    other: str
    difference: float
    differs: bool


def bars(run: Run) -> list[Bar]:
    """Return a bar for each subject with an overall mean."""
    return [
        Bar(row.subject, row.mean, row.low, row.high, row.first, row.last)
        for row in _rows(Rank, run, "leaderboard")
        if row.mean is not None and row.first is not None and row.last is not None
    ]


def heats(run: Run) -> list[Heat]:
    """Return each known rate of a subject, dimension and issue, in the order of the leaderboard."""
    place, rubrics = _places(run), run.rubrics
    texts = {(name, issue.letter): issue.text for name, each in rubrics.items() for issue in each.judging.issues}
    found = [row for row in _rows(IssueRate, run, "issues") if row.judge == PANEL and row.rate is not None]
    found.sort(key=lambda row: (place[row.subject], run.dimensions.index(row.dimension), row.issue))
    return [
        Heat(row.subject, row.dimension, row.issue, row.rate or 0.0, texts[row.dimension, row.issue]) for row in found
    ]


def points(run: Run) -> list[Point]:
    """Return the alphas of several judges, of people, and of the panel (or only judge) and people's mean, if known."""
    judges = [row for row in _rows(Agreed, run, "agreement") if row.issue is None and row.statistic == "alpha"]
    shown = {None: PEOPLE, PANEL if len(run.panel) > 1 else run.panel[0]: BOTH}
    people = [row for row in _rows(PeopleAgreed, run, "people") if row.issue is None and row.rater is None]
    found = [
        Point(row.dimension, row.value, row.low, row.high, row.reliable) for row in judges if row.value is not None
    ]
    return found + [
        Point(row.dimension, row.agreement, row.low, row.high, row.reliable, shown[row.judge])
        for row in people
        if row.judge in shown and row.agreement is not None
    ]


def pairs(run: Run) -> list[Pair]:
    """Return every pair of subjects with a known overall difference, the higher ranked first."""
    place = _places(run)
    found = []
    for row in _rows(PairedDifference, run, "differences"):
        if row.dimension == OVERALL and row.difference is not None:
            if place[row.subject] < place[row.other]:
                found.append(Pair(row.subject, row.other, row.difference, row.differs))
            else:
                found.append(Pair(row.other, row.subject, -row.difference, row.differs))
    return sorted(found, key=lambda pair: (place[pair.subject], place[pair.other]))


def _places(run: Run) -> dict[str, int]:
    return {row.subject: at for at, row in enumerate(_rows(Rank, run, "leaderboard"))}


def _rows(row_type: type[R], run: Run, name: str) -> list[R]:
    try:
        return from_table(row_type, run.analysis(name))
    except KeyError as error:
        cause = f"{run.location}: the table {name} is outdated, it has no column {error}"
        raise ConfigError(f"{cause}; `hab report {run.location}` writes it anew") from None
