"""Rates at which issues are named for subjects' answers, by judge."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import Array, ends, interval, mean_of_known, numbered
from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.signflips import p_among
from hab_ray.analysis.summary import Summary
from hab_ray.results import rows_in
from hab_ray.rows import State
from hab_ray.rubric import Rubric

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


def rates_in(summary: Summary, dimension: str) -> Iterator[IssueRate]:
    """Yield the rate of every issue in a dimension by judge and subject, the panel's first; `q` is not known yet."""
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

    def __init__(self, own: int, by_test: Array, calls: Sequence[str]) -> None:
        asked = np.flatnonzero(~np.isnan(by_test[own, :, 0])).tolist()
        self._own, self._shares = own, by_test[:, asked]
        self._call_of = numbered(calls[test] for test in asked)
        unknown = np.isnan(self._shares[..., 0])
        self._eligible, self._is_alone = self._by_call(unknown) == 0, bool(np.delete(unknown, own, axis=0).all())

    def _by_call(self, values: NDArray[Any]) -> Array:
        """Sum subjects x tests over the tests of each call."""
        return np.array([np.bincount(self._call_of, own) for own in values])

    def others(self, issue: int) -> float | None:
        """Return the others' mean rate over the tests that any of them has as well, or None."""
        means = mean_of_known(np.delete(self._shares[..., issue], self._own, axis=0), axis=0)
        known = means[~np.isnan(means)]
        return float(known.mean()) if len(known) else None

    def p(self, issue: int) -> float | None:
        """Return the p-value if the subject may be any eligible one of each call; None without others."""
        if self._is_alone:
            return None
        return p_among(self._own, self._by_call(np.nan_to_num(self._shares[..., issue])), self._eligible)


def shares_naming(summary: Summary, subject: str, judge: str, dimension: str) -> Array:
    """Return tests x samples x issues: the share of a judge's readings that name the issue; nan if not scored."""
    settings, who = summary.settings, (subject, judge, dimension)
    if who in summary.shares:
        return summary.shares[who]
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
        summary.shares[who] = np.where(readings[..., None] > 0, sums / readings[..., None], np.nan)
    return summary.shares[who]


def _of_cell(
    summary: Summary,
    rubric: Rubric,
    who: tuple[str, str],
    named: Array,
    by_test: Array,
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
