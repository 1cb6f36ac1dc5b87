"""How often each issue is named for each subject's answers, and its share of the points lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import ends, interval, mean_of_known, numbered
from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.pairs import benjamini_hochberg, of_known
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.signflips import p_among
from hab_ray.analysis.summary import Summary
from hab_ray.results import Answer, rows_in
from hab_ray.rows import ChosenTest, State
from hab_ray.rubric import Criterion, Rubric

_Array = NDArray[np.float64]
TESTS_SHOWN = 3
_COLUMNS = ("test_id", "sample", "replicate", "state", "issues")


@dataclass(frozen=True, slots=True)
class IssueRate:
    """The rate at which a judge, or the panel (the mean of its judges), names an issue for a subject's answers.

    `rate` is over tests, with a 95 % interval; `answers` counts those with known issues, `calls` their generation
    calls. `lost` is the issue's share of all deductions before the floor of 0, null if nothing is deducted. `others` is
    the mean rate of the other subjects on the same tests. `p` is that of a randomisation test in which the subject may
    be any that has all its tests in each generation call; `q` is corrected over all issues of all subjects (Benjamini
    and Hochberg). Both exist for the panel only. `example` is the first test, by hash, with the highest rate.
    """

    subject: str
    dimension: str
    judge: str
    issue: str
    answers: int
    calls: int
    rate: float | None
    low: float | None
    high: float | None
    lost: float | None
    others: float | None
    p: float | None
    q: float | None
    example: str | None


@dataclass(frozen=True)
class Worst:
    """The issue that costs a subject most in a dimension, with an answer for which it was named.

    `is_transcript` says whether the answer stands among the report's transcripts.
    """

    rate: IssueRate
    issue: Criterion
    test: ChosenTest | None
    answer: Answer | None
    is_transcript: bool


@dataclass(frozen=True)
class DimensionIssues:
    """What costs points in a dimension: the worst issue of each subject, the costliest first, and all rates."""

    worst: tuple[Worst, ...]
    rates: tuple[IssueRate, ...]

    @property
    def first(self) -> Criterion | None:
        """The issue that costs most subjects most; None if no points are lost."""
        ((issue, _),) = Counter(one.issue for one in self.worst).most_common(1) or ((None, 0),)
        return issue

    @property
    def costing(self) -> list[IssueRate]:
        """The rates of the first issue for the subjects whom it costs most."""
        return [one.rate for one in self.worst if one.issue == self.first]


def _shown(summary: Summary, rows: Sequence[IssueRate]) -> Mapping[str, DimensionIssues] | None:
    panel = [row for row in rows if row.judge == PANEL]
    cells: dict[tuple[str, str], list[IssueRate]] = {}
    for row in panel:
        cells.setdefault((row.dimension, row.subject), []).append(row)
    costliest = [max(found, key=lambda row: row.lost or 0.0) for found in cells.values()]
    named = [row for row in costliest if row.lost]
    if not named:
        return None
    return {
        name: DimensionIssues(
            tuple(_of_dimension(summary, name, named)), tuple(row for row in panel if row.dimension == name)
        )
        for name in summary.settings.tests
    }


def _of_dimension(summary: Summary, dimension: str, named: Sequence[IssueRate]) -> Iterator[Worst]:
    rows = sorted((row for row in named if row.dimension == dimension), key=lambda row: (-(row.lost or 0), row.subject))
    ids = sorted({row.example for row in rows if row.example})
    found = {one.test.id: one for one in summary.run.transcripts(dimension, test_ids=ids)} if ids else {}
    issues = {issue.letter: issue for issue in summary.rubrics[dimension].judging.issues}
    picked = pick(summary.settings.tests[dimension])
    for row in rows:
        transcript = found.get(row.example or "")
        answers = transcript.answers if transcript else ()
        named_of = [each for each in answers if _is_named(row, each, summary.settings.panel)]
        test = transcript.test if transcript else None
        answer = next(iter(named_of), None)
        yield Worst(row, issues[row.issue], test, answer, row.example in picked and bool(answer and answer.sample == 0))


def _is_named(row: IssueRate, answer: Answer, panel: Sequence[str]) -> bool:
    named = [verdict.issues or () for verdict in answer.verdicts if verdict.judge in panel]
    return answer.subject == row.subject and any(row.issue in found for found in named)


@analysis(IssueRate, order=22, heading="Why points are lost", layout=_shown)
def issues(summary: Summary) -> Sequence[IssueRate]:
    """Return the rate of every issue by dimension, judge and subject; the panel's come first."""
    rows = [row for dimension in summary.settings.tests for row in _rates(summary, dimension)]
    corrected = of_known(benjamini_hochberg, [row.p for row in rows])
    return [replace(row, q=q) for row, q in zip(rows, corrected, strict=True)]


def _rates(summary: Summary, dimension: str) -> Iterator[IssueRate]:
    settings, rubric = summary.settings, summary.rubrics[dimension]
    named = {
        (subject, judge): shares_naming(summary, subject, judge, dimension)
        for subject, judge in product(settings.subjects, settings.panel)
    }
    for subject in settings.subjects:
        named[subject, PANEL] = np.mean([named[subject, judge] for judge in settings.panel], axis=0)
    by_test = {who: mean_of_known(found, axis=1) for who, found in named.items()}
    of_panel = np.array([by_test[subject, PANEL] for subject in settings.subjects])
    for at, subject in enumerate(settings.subjects):
        compared = RatesBeside(at, of_panel, settings.calls_of(dimension))
        yield from _of_cell(summary, rubric, (subject, PANEL), named[subject, PANEL], by_test[subject, PANEL], compared)
    for judge, subject in product(settings.panel, settings.subjects):
        yield from _of_cell(summary, rubric, (subject, judge), named[subject, judge], by_test[subject, judge])


class RatesBeside:
    """A subject's rates compared with the others': their mean on its tests, and a p-value, by issue."""

    def __init__(self, own: int, by_test: _Array, calls: Sequence[str]) -> None:
        asked = np.flatnonzero(~np.isnan(by_test[own, :, 0])).tolist()
        self._own, self._shares = own, by_test[:, asked]
        self._call_of = numbered(calls[test] for test in asked)
        self._eligible = self._by_call(np.isnan(self._shares[..., 0])) == 0

    def _by_call(self, values: NDArray[Any]) -> _Array:
        """Sum subjects x tests over the tests of each call."""
        return np.array([np.bincount(self._call_of, own) for own in values])

    def others(self, issue: int) -> float | None:
        """Return the others' mean rate over the tests that any of them has as well, or None."""
        means = mean_of_known(np.delete(self._shares[..., issue], self._own, axis=0), axis=0)
        known = means[~np.isnan(means)]
        return float(known.mean()) if len(known) else None

    def p(self, issue: int) -> float | None:
        """Return the p-value if the subject may be any eligible one of each call; None without others."""
        if self.others(issue) is None:
            return None
        return p_among(self._own, self._by_call(np.nan_to_num(self._shares[..., issue])), self._eligible)


def shares_naming(summary: Summary, subject: str, judge: str, dimension: str) -> _Array:
    """Return tests x samples x issues: the share of a judge's readings that name the issue; nan if not scored."""
    who = subject, judge, dimension
    if who not in summary.shares:
        summary.shares[who] = _read_shares(summary, *who)
    return summary.shares[who]


def _read_shares(summary: Summary, subject: str, judge: str, dimension: str) -> _Array:
    settings = summary.settings
    letters = summary.rubrics[dimension].issue_letters()
    tests = settings.positions(dimension)
    places = {letter: at for at, letter in enumerate(letters)}
    shape = len(tests), settings.samples, len(letters)
    sums, readings = np.zeros(shape), np.zeros(shape[:2])
    table = summary.run.verdicts(judge, subject, dimension, columns=_COLUMNS)
    for test_id, sample, replicate, state, found in rows_in(table):
        wanted = sample < settings.samples and replicate < settings.replicates and test_id in tests
        if wanted and state == State.OK and found is not None:
            readings[tests[test_id], sample] += 1
            for letter in set(found) & places.keys():
                sums[tests[test_id], sample, places[letter]] += 1
    readings[np.isnan(summary.cells[subject, dimension, judge].by_test)] = 0
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: _Array = np.where(readings[..., None] > 0, sums / readings[..., None], np.nan)
    return shares


def _of_cell(
    summary: Summary,
    rubric: Rubric,
    who: tuple[str, str],
    named: _Array,
    by_test: _Array,
    compared: RatesBeside | None = None,
) -> Iterator[IssueRate]:
    subject, judge = who
    ids, calls = summary.settings.tests[rubric.id], summary.settings.calls_of(rubric.id)
    known = ~np.isnan(named).any(axis=2)
    costs = [float(np.nansum(named[..., at])) * each.deduction for at, each in enumerate(rubric.judging.issues)]
    for at, issue in enumerate(rubric.judging.issues):
        own = by_test[:, at]
        asked = np.flatnonzero(~np.isnan(own))
        highest = own[asked].max(initial=0.0)
        rate, low, high = ends(interval(own[asked].tolist(), [calls[test] for test in asked]) if len(asked) else None)
        yield IssueRate(
            subject=subject,
            dimension=rubric.id,
            judge=judge,
            issue=issue.letter,
            answers=int(known.sum()),
            calls=len({calls[test] for test in asked}),
            rate=rate,
            low=low,
            high=high,
            lost=costs[at] / sum(costs) if sum(costs) else None,
            others=compared.others(at) if compared else None,
            p=compared.p(at) if compared else None,
            q=None,
            example=min((ids[test] for test in asked if own[test] == highest > 0), key=hash_of, default=None),
        )


def hash_of(id_: str) -> bytes:
    """Return a hash by which examples are chosen: reproducibly, and independently of results."""
    return sha256(id_.encode("utf-8", "surrogatepass")).digest()


def pick(test_ids: Sequence[str]) -> list[str]:
    """Return the tests whose transcripts are shown: the first by the hash of their ids."""
    return sorted(test_ids, key=hash_of)[:TESTS_SHOWN]
