"""Shifts of a judge's scores over time, measured by its sentinels; see `hab_ray.stages.rejudge`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from statistics import fmean, median, stdev

import numpy as np

from hab_ray.analysis.evidence.components import effective_calls
from hab_ray.analysis.intervals import FEW_CALLS, ends, interval, sums_by
from hab_ray.analysis.pairs import deviation
from hab_ray.analysis.power import LEVEL, Design
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.signflips import p_of_mean
from hab_ray.analysis.summary import Summary
from hab_ray.results import rejudged
from hab_ray.rows import Rejudged, State, from_table
from hab_ray.rubric import SCORE_START

_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Drift:
    """A judge's scores (0..1) of its sentinels at the `repeat`-th repetition.

    `before` and `after` are means over the `answers` scored both times, in all dimensions; `shift` is their difference
    with a 95 % interval by generation call, not `reliable` with few `calls`. `p` is that of the sign-flip test by call:
    in each call the first and the later reading are exchangeable. `changed` is the share of answers whose score
    changed, `sd` the standard deviation of the differences, `smallest` the shift that these calls detect with a power
    of 80 %, null if their differences are equal or no shift could be significant. `hours` is the median time between
    the two verdicts, null if unknown. `unread` answers have no score the second time.
    """

    judge: str
    repeat: int
    answers: int
    calls: int
    unread: int
    hours: float | None
    before: float | None
    after: float | None
    shift: float | None
    low: float | None
    high: float | None
    p: float | None
    changed: float | None
    sd: float | None
    smallest: float | None
    reliable: bool

    @property
    def is_significant(self) -> bool:
        """Whether the p-value is at most .05."""
        return self.p is not None and self.p <= LEVEL


@analysis(Drift, order=32, heading="Judge drift")
def drift(summary: Summary) -> Sequence[Drift]:
    """Return the drift of every judge at every repetition; nothing if the sweep has no sentinels."""
    if not summary.run.record.sweep.sentinels:
        return []
    rows = from_table(Rejudged, rejudged(summary.run))
    order = {judge: at for at, judge in enumerate(summary.settings.panel)}
    rows = sorted((row for row in rows if row.judge in order), key=lambda row: (order[row.judge], row.repeat))
    calls = _calls(summary)
    return [
        _of(calls, judge, repeat, list(found))
        for (judge, repeat), found in groupby(rows, key=lambda row: (row.judge, row.repeat))
    ]


def _of(calls: Mapping[tuple[str, str], str], judge: str, repeat: int, rows: Sequence[Rejudged]) -> Drift:
    scored = [row for row in rows if row.state is State.OK and row.score is not None]
    read = [row for row in scored if (row.dimension, row.test_id) in calls]
    pairs = [(row.before / SCORE_START, (row.score or 0) / SCORE_START) for row in read]
    differences = [after - before for before, after in pairs]
    groups = [(row.dimension, calls[row.dimension, row.test_id]) for row in read]
    shift, low, high = ends(interval(differences, groups, -1.0, 1.0) if read else None)
    sums = sums_by(np.array(differences), groups)
    sd, effective = (deviation(differences, groups), effective_calls(groups)) if read else (0.0, None)
    design = Design(2, len(sums), sd, effective)
    return Drift(
        judge=judge,
        repeat=repeat,
        answers=len(read),
        calls=len(sums),
        unread=len(rows) - len(read),
        hours=median(between) if (between := list(_hours(read))) else None,
        before=fmean(before for before, _ in pairs) if read else None,
        after=fmean(after for _, after in pairs) if read else None,
        shift=shift,
        low=low,
        high=high,
        p=p_of_mean([sums], [len(read)]) if read else None,
        changed=fmean(difference != 0 for difference in differences) if read else None,
        sd=stdev(differences) if len(read) > 1 else None,
        smallest=design.smallest if design.can_show_any and design.sd else None,
        reliable=len(sums) >= FEW_CALLS,
    )


def _calls(summary: Summary) -> Mapping[tuple[str, str], str]:
    """Return the generation call of each test by dimension and id: given tests of two dimensions may share an id."""
    settings = summary.settings
    return {
        (dimension, test): call
        for dimension, tests in settings.tests.items()
        for test, call in zip(tests, settings.calls_of(dimension), strict=True)
    }


def _hours(rows: Sequence[Rejudged]) -> Iterator[float]:
    for row in rows:
        if row.at and row.before_at:
            between = datetime.fromisoformat(row.at) - datetime.fromisoformat(row.before_at)
            yield between.total_seconds() / _HOUR_S
