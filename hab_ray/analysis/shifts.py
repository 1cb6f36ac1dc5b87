"""A judge's scores compared with an earlier study's judge on the same answers: shift, agreement, a map of scores.

The shift is the mean over tests of the mean difference of a test's answers, since answers to one test are not
independent. Nor are tests from one generation call, so intervals allow for calls. Replicates of a judge are averaged
first, as in its scores. Equal scores and kappas are of single readings, like the earlier study's verdicts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.agreement import kappa
from hab_ray.analysis.intervals import Array, combined, ends, interval
from hab_ray.analysis.marks import OVERALL
from hab_ray.rows import IssueShift, ScoreMap, Shift

_DRAWS = 1000
_SEED = 0
_DECIMALS = 9
_COUNTS = ("tests", "answers", "readings", "no_answer", "failed_then", "failed_now")


@dataclass
class Compared:
    """The scores (0..1) of a judge and an earlier judge for the same answers in a dimension.

    Each answer scored by the judge has its test, the judge's mean score, and the earlier score, nan if it has none.
    `issues` counts readings by issue and by whether each of the two names it. `calls` holds the generation call of each
    test; a test without one is its own.
    """

    calls: Mapping[str, str] = field(default_factory=dict)
    tests: list[str] = field(default_factory=list)
    now: list[float] = field(default_factory=list)
    then: list[float] = field(default_factory=list)
    issues: dict[str, Counter[tuple[bool, bool]]] = field(default_factory=lambda: defaultdict(Counter))
    readings: int = 0
    equal: int = 0
    no_answer: int = 0
    failed_then: int = 0
    failed_now: int = 0

    def add(self, test: str, now: Sequence[float], then: float | None) -> None:
        """Add an answer that the judge has scored; `now` holds one score per reading."""
        self.tests.append(test)
        self.now.append(round(fmean(now), _DECIMALS))
        self.then.append(np.nan if then is None else then)
        if then is not None:
            self.readings += len(now)
            self.equal += sum(abs(mark - then) < 10**-_DECIMALS for mark in now)

    def add_issues(self, letters: Iterable[str], now: Iterable[str], then: Iterable[str]) -> None:
        """Add the issues that both name in one reading of an answer."""
        by_judge, by_earlier = set(now), set(then)
        for letter in letters:
            self.issues[letter][letter in by_judge, letter in by_earlier] += 1

    def calls_of(self, tests: Iterable[str]) -> list[str]:
        """Return the generation call of each of these tests."""
        return [self.calls.get(test, test) for test in tests]

    def both(self) -> tuple[NDArray[np.str_], Array]:
        """Return tests and scores, now and then, of the answers that both have scored."""
        scores = np.array([self.now, self.then]).T
        known = ~np.isnan(scores).any(axis=1)
        return np.array(self.tests, dtype=np.str_)[known], scores[known]


def shifts(judge: str, rater: str, found: Mapping[str, Compared]) -> Iterator[Shift]:
    """Yield a judge's shift in every dimension, then, of several dimensions, overall with equal weights."""
    estimates, rows = [], []
    for dimension, cell in found.items():
        tests, scores = cell.both()
        names, at = np.unique(tests, return_inverse=True)
        now, then = (np.bincount(at, side) / np.bincount(at) for side in scores.T)
        is_known = len(names) > 0
        calls = cell.calls_of(names.tolist())
        estimates.append(interval((now - then).tolist(), calls, -1.0, 1.0) if is_known else None)
        difference, low, high = ends(estimates[-1])
        rows.append(
            Shift(
                judge=judge,
                rater=rater,
                dimension=dimension,
                tests=len(names),
                answers=len(tests),
                now=float(now.mean()) if is_known else None,
                then=float(then.mean()) if is_known else None,
                difference=difference,
                low=low,
                high=high,
                readings=cell.readings,
                equal=cell.equal / cell.readings if cell.readings else None,
                no_answer=cell.no_answer,
                failed_then=cell.failed_then,
                failed_now=cell.failed_now,
            )
        )
    yield from rows
    if len(rows) > 1:
        difference, low, high = ends(combined(estimates))
        means = [(row.now, row.then) for row in rows if row.now is not None and row.then is not None]
        now_, then_ = (fmean(side) for side in zip(*means, strict=True)) if len(means) == len(rows) else (None, None)
        counts = {name: sum(getattr(row, name) for row in rows) for name in _COUNTS}
        equal = sum(cell.equal for cell in found.values()) / counts["readings"] if counts["readings"] else None
        whole = replace(rows[0], dimension=OVERALL, now=now_, then=then_, equal=equal, **counts)
        yield replace(whole, difference=difference, low=low, high=high)


def issue_shifts(judge: str, rater: str, found: Mapping[str, Compared]) -> Iterator[IssueShift]:
    """Yield the kappa of every issue of every dimension; None where chance alone agrees perfectly."""
    for dimension, cell in found.items():
        for issue, counts in cell.issues.items():
            both = counts[True, True]
            sums = counts.total(), both, both + counts[True, False], both + counts[False, True]
            (value,) = kappa(np.array([sums], dtype=np.float64))
            known = None if np.isnan(value) else float(value)
            yield IssueShift(judge, rater, dimension, issue, counts.total(), *sums[2:], known)


def score_maps(judge: str, rater: str, found: Mapping[str, Compared], draws: int = _DRAWS) -> Iterator[ScoreMap]:
    """Yield the map of a judge's scores onto the earlier judge's, then the mapped mean of all answers in `found`.

    There is one map over all dimensions, in which each answer counts once. Intervals come from a bootstrap over the
    generation calls of each dimension that refits the map; there are none if a dimension has a single call.
    """
    if not any(len(cell.both()[0]) for cell in found.values()):
        return
    levels = np.unique(np.concatenate([cell.now for cell in found.values()]))
    tallies = [_tally(cell, levels) for cell in found.values() if cell.tests]
    total = np.sum([each.sum(axis=0) for each in tallies], axis=0)
    mapped, mean = _mapped(levels, total)
    intervals: list[tuple[float | None, float | None]] = [(None, None)] * (len(levels) + 1)
    if all(len(tally) > 1 for tally in tallies):
        intervals = [(float(low), float(high)) for low, high in zip(*_interval(levels, tallies, draws), strict=True)]
    for at, level in enumerate(levels):
        yield ScoreMap(judge, rater, float(level), int(total[2][at]), float(mapped[at]), *intervals[at])
    yield ScoreMap(judge, rater, None, int(total[2].sum()), mean, *intervals[-1])


def _tally(cell: Compared, levels: Array) -> Array:
    """Count by call and level of the judge: answers with both scores, sum of the earlier ones, answers scored now."""
    names, calls = np.unique(cell.calls_of(cell.tests), return_inverse=True)
    tally = np.zeros((len(names), 3, len(levels)))
    then, places = np.array(cell.then), np.searchsorted(levels, cell.now)
    for column, values in enumerate((~np.isnan(then), np.nan_to_num(then), np.ones(len(then)))):
        np.add.at(tally[:, column], (calls, places), values)
    return tally


def _mapped(levels: Array, tally: Array) -> tuple[Array, float]:
    """Return what each level is mapped onto by isotonic regression, and the mapped mean of the answers.

    The map is linear between levels with an earlier score and constant beyond them.
    """
    from scipy.optimize import isotonic_regression

    weights, sums, scored = tally
    known = weights > 0
    fit = isotonic_regression(sums[known] / weights[known], weights=weights[known]).x
    mapped: Array = np.interp(levels, levels[known], fit)
    return mapped, float(mapped @ scored / scored.sum())


def _interval(levels: Array, tallies: Sequence[Array], draws: int) -> tuple[Array, Array]:
    """Return the ends of the 95 % intervals of each mapped level and, last, of the mean."""
    random = np.random.default_rng(_SEED)
    drawn = sum(
        np.einsum("bt,tkl->bkl", random.multinomial(len(tally), [1 / len(tally)] * len(tally), size=draws), tally)
        for tally in tallies
    )
    fitted = [_mapped(levels, one) for one in drawn if one[0].any()]
    values = np.array([[*mapped, mean] for mapped, mean in fitted])
    low, high = np.quantile(values, (0.025, 0.975), axis=0)
    return low, high
