"""A judge's scores compared with an earlier study's judge on the same answers: shift, agreement, a map of scores.

The shift is the mean over tests of the mean difference of a test's answers, since answers to one test are not
independent. Replicates of a judge are averaged first, as in its scores. Equal scores and kappas are of single readings,
like the earlier study's verdicts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import Interval, combined, ends, interval
from hab_ray.analysis.marks import OVERALL
from hab_ray.rows import IssueShift, ScoreMap, Shift

_DRAWS = 1000
_SEED = 0
_DECIMALS = 9
_Array = NDArray[np.float64]


@dataclass
class Compared:
    """Counts of the verdicts of a judge and an earlier judge on the same answers in a dimension.

    `by_test` counts the answers to each test by the two scores (0..1), `only_now` those that only the judge has scored.
    `issues` counts readings by issue and by whether each of the two names it.
    """

    by_test: dict[str, Counter[tuple[float, float]]] = field(default_factory=lambda: defaultdict(Counter))
    only_now: dict[str, Counter[float]] = field(default_factory=lambda: defaultdict(Counter))
    issues: dict[str, Counter[tuple[bool, bool]]] = field(default_factory=lambda: defaultdict(Counter))
    readings: int = 0
    equal: int = 0
    no_answer: int = 0
    failed_then: int = 0
    failed_now: int = 0

    def add(self, test: str, now: Sequence[float], then: float) -> None:
        """Add an answer that both have scored; `now` holds one score per reading."""
        self.by_test[test][round(fmean(now), _DECIMALS), then] += 1
        self.readings += len(now)
        self.equal += sum(abs(mark - then) < 10**-_DECIMALS for mark in now)

    def add_alone(self, test: str, now: Sequence[float]) -> None:
        """Add an answer that only the judge has scored."""
        self.only_now[test][round(fmean(now), _DECIMALS)] += 1

    def add_issues(self, letters: Iterable[str], now: Iterable[str], then: Iterable[str]) -> None:
        """Add the issues that both name in one reading of an answer."""
        by_judge, by_earlier = set(now), set(then)
        for letter in letters:
            self.issues[letter][letter in by_judge, letter in by_earlier] += 1

    def differences(self) -> list[float]:
        """Return the mean difference, now minus then, of each test."""
        return [_mean(scores, lambda pair: pair[0] - pair[1]) for scores in self.by_test.values()]


def _mean(scores: Counter[tuple[float, float]], of: Callable[[tuple[float, float]], float]) -> float:
    return fsum(count * of(pair) for pair, count in scores.items()) / scores.total()


def shifts(judge: str, rater: str, found: Mapping[str, Compared]) -> Iterator[Shift]:
    """Yield a judge's shift in every dimension, then, of several dimensions, overall with equal weights."""
    estimates, means = [], []
    for dimension, cell in found.items():
        now = [_mean(scores, lambda pair: pair[0]) for scores in cell.by_test.values()]
        then = [_mean(scores, lambda pair: pair[1]) for scores in cell.by_test.values()]
        differences = cell.differences()
        estimates.append(interval(differences, range(len(differences)), -1.0, 1.0) if differences else None)
        means.append((fmean(now), fmean(then)) if now else None)
        yield _shift(judge, rater, dimension, estimates[-1], means[-1], [cell])
    if len(found) > 1:
        known = [pair for pair in means if pair is not None]
        both = (fmean(n for n, _ in known), fmean(t for _, t in known)) if len(known) == len(means) else None
        yield _shift(judge, rater, OVERALL, combined(estimates), both, list(found.values()))


def _shift(
    judge: str,
    rater: str,
    dimension: str,
    shift: Interval | None,
    means: tuple[float, float] | None,
    cells: Sequence[Compared],
) -> Shift:
    readings = sum(cell.readings for cell in cells)
    difference, low, high = ends(shift)
    return Shift(
        judge=judge,
        rater=rater,
        dimension=dimension,
        tests=sum(len(cell.by_test) for cell in cells),
        answers=sum(scores.total() for cell in cells for scores in cell.by_test.values()),
        now=means[0] if means else None,
        then=means[1] if means else None,
        difference=difference,
        low=low,
        high=high,
        readings=readings,
        equal=sum(cell.equal for cell in cells) / readings if readings else None,
        no_answer=sum(cell.no_answer for cell in cells),
        failed_then=sum(cell.failed_then for cell in cells),
        failed_now=sum(cell.failed_now for cell in cells),
    )


def issue_shifts(judge: str, rater: str, found: Mapping[str, Compared]) -> Iterator[IssueShift]:
    """Yield the kappa of every issue of every dimension."""
    for dimension, cell in found.items():
        for issue, counts in cell.issues.items():
            yield IssueShift(
                judge=judge,
                rater=rater,
                dimension=dimension,
                issue=issue,
                readings=counts.total(),
                now=counts[True, True] + counts[True, False],
                then=counts[True, True] + counts[False, True],
                kappa=kappa(counts),
            )


def kappa(counts: Mapping[tuple[bool, bool], int]) -> float | None:
    """Return Cohen's kappa of a 2 x 2 table; None where chance alone agrees perfectly."""
    a, b, c, d = (counts.get(key, 0) for key in ((True, True), (True, False), (False, True), (False, False)))
    by_chance = (a + b) * (b + d) + (a + c) * (c + d)
    return 2 * (a * d - b * c) / by_chance if by_chance else None


def score_maps(judge: str, rater: str, found: Mapping[str, Compared], draws: int = _DRAWS) -> Iterator[ScoreMap]:
    """Yield the map of a judge's scores onto the earlier judge's, then the mapped mean of all answers it has scored.

    There is one map over all dimensions, in which each answer counts once. Intervals come from a bootstrap over the
    tests of each dimension that refits the map; a single test has none.
    """
    pairs = [pair for cell in found.values() for scores in cell.by_test.values() for pair in scores]
    if not pairs:
        return
    alone = (score for cell in found.values() for scores in cell.only_now.values() for score in scores)
    levels = np.array(sorted({*(now for now, _ in pairs), *alone}))
    tallies = [_tally(cell, levels) for cell in found.values() if cell.by_test or cell.only_now]
    total = np.sum([each.sum(axis=0) for each in tallies], axis=0)
    mapped, mean = _mapped(levels, total)
    intervals: list[tuple[float | None, float | None]] = [(None, None)] * (len(levels) + 1)
    if sum(map(len, tallies)) > 1:
        intervals = [(float(low), float(high)) for low, high in zip(*_interval(levels, tallies, draws), strict=True)]
    for at, level in enumerate(levels):
        yield ScoreMap(judge, rater, float(level), int(total[2][at]), float(mapped[at]), *intervals[at])
    yield ScoreMap(judge, rater, None, int(total[2].sum()), mean, *intervals[-1])


def _tally(cell: Compared, levels: _Array) -> _Array:
    """Count by test and level of the judge: answers with both scores, sum of the earlier ones, answers scored now."""
    tests = sorted({*cell.by_test, *cell.only_now})
    place = {float(level): number for number, level in enumerate(levels)}
    tally = np.zeros((len(tests), 3, len(levels)))
    for row, test in zip(tally, tests, strict=True):
        for (now, then), count in cell.by_test.get(test, Counter()).items():
            row[:, place[now]] += (count, count * then, count)
        for now, count in cell.only_now.get(test, Counter()).items():
            row[2, place[now]] += count
    return tally


def _mapped(levels: _Array, tally: _Array) -> tuple[_Array, float]:
    """Return what each level is mapped onto by isotonic regression, and the mapped mean of the answers.

    The map is linear between levels with an earlier score and constant beyond them.
    """
    from scipy.optimize import isotonic_regression

    weights, sums, scored = tally
    known = weights > 0
    fit = isotonic_regression(sums[known] / weights[known], weights=weights[known]).x
    mapped: _Array = np.interp(levels, levels[known], fit)
    return mapped, float(mapped @ scored / scored.sum())


def _interval(levels: _Array, tallies: Sequence[_Array], draws: int) -> tuple[_Array, _Array]:
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
