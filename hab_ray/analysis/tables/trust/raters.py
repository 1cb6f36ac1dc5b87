"""Ratings by people or by judges of earlier studies, compared with the panel's verdicts on the same answers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from hab_ray.analysis.marks import PANEL, VerdictMark
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary
from hab_ray.results import rows_in
from hab_ray.rows import Rater, State


@dataclass(frozen=True, slots=True)
class RaterLine:
    """One rater in one dimension; means are 0..1.

    `mean` is over all `rated` answers, `mean_answered` without the `failed` ones, which the panel does not judge: an
    earlier study may have scored failed calls as answers. The `compared` answers have a mark of the panel as well;
    `own` and `panel` are means over these. `unscored` answers, on which the rater itself failed, enter nothing else.
    The table `people` has the agreement of people.
    """

    rater: str
    kind: Rater
    dimension: str
    rated: int
    failed: int
    mean: float | None
    mean_answered: float | None
    compared: int
    own: float | None
    panel: float | None
    unscored: int = 0

    @property
    def difference(self) -> float | None:
        """The panel's mean minus the rater's over the same answers, as in the table `people`."""
        return None if self.own is None or self.panel is None else self.panel - self.own


class _Pair(NamedTuple):
    """A rater's and the panel's mark of a response, if any, and whether the response is an answer."""

    own: float | None
    panel: float | None
    is_answer: bool


@analysis(RaterLine, order=36, heading="Other raters")
def raters(summary: Summary) -> Sequence[RaterLine]:
    """Return all raters outside the panel by name, in each dimension."""
    pairs: dict[tuple[Rater, str, str], list[_Pair]] = defaultdict(list)
    for subject, dimension, table in summary.run.further_verdicts(columns=VerdictMark._fields):
        marks = panel_marks(summary, subject, dimension)
        responses = rows_in(summary.run.responses(subject, dimension, columns=["test_id", "sample", "state"]))
        answered = {(test_id, sample) for test_id, sample, state in responses if state == State.OK}
        for row in map(VerdictMark._make, rows_in(table)):
            answer = row.test_id, row.sample
            pair = _Pair(row.mark, marks.get(answer), answer in answered)
            pairs[Rater(row.kind), row.judge, dimension].append(pair)
    places = {dimension: place for place, dimension in enumerate(summary.settings.tests)}
    lines = [_line(*key, found) for key, found in pairs.items()]
    lines.sort(key=lambda line: (line.rater, places[line.dimension]))
    return lines


def panel_marks(summary: Summary, subject: str, dimension: str) -> Mapping[tuple[str, int], float]:
    """Return the panel's marks of a subject's answers by test and sample, without those excluded from means."""
    by_test, ids = summary.cells[subject, dimension, PANEL].by_test, summary.settings.tests[dimension]
    return {(ids[test], int(at)): float(by_test[test, at]) for test, at in np.argwhere(~np.isnan(by_test))}


def _line(kind: Rater, rater: str, dimension: str, pairs: Sequence[_Pair]) -> RaterLine:
    own = [(pair.own, pair) for pair in pairs if pair.own is not None]
    both = [(mark, pair.panel) for mark, pair in own if pair.panel is not None]
    answered = [mark for mark, pair in own if pair.is_answer]
    return RaterLine(
        rater=rater,
        kind=kind,
        dimension=dimension,
        rated=len(own),
        failed=len(own) - len(answered),
        mean=_mean([mark for mark, _ in own]),
        mean_answered=_mean(answered),
        compared=len(both),
        own=_mean([mark for mark, _ in both]),
        panel=_mean([panel for _, panel in both]),
        unscored=len(pairs) - len(own),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
