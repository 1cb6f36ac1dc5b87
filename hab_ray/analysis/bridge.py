"""Compares a run's judges with earlier studies' judges on the same answers: shift, agreement, a map of scores.

The shift is the mean over tests of the mean difference of a test's answers, since answers to one test are not
independent. Nor are tests from one generation call, so intervals allow for calls. Replicates of a judge are averaged
first, as in its scores. Equal scores and kappas are of single readings, like the earlier study's verdicts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.agreement import kappa
from hab_ray.analysis.intervals import Array, combined, ends, interval
from hab_ray.analysis.marks import OVERALL, ScoreSettings, VerdictMark
from hab_ray.calls import Finish
from hab_ray.results import Run, rows_in
from hab_ray.rows import IssueShift, Rater, ScoreMap, Shift, State
from hab_ray.rubric import Rubric
from hab_ray.visible import counted

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


_Answer = tuple[str, int]


@dataclass(frozen=True)
class Bridge:
    """Comparisons of every judge, varied or not, with every judge of an earlier study."""

    shifts: tuple[Shift, ...] = ()
    issues: tuple[IssueShift, ...] = ()
    maps: tuple[ScoreMap, ...] = ()

    def spoken(self) -> Iterator[str]:
        """Describe each pair of judge and earlier judge in a line, over all dimensions."""
        for _, shifts_of_pair in groupby(self.shifts, lambda shift: (shift.judge, shift.rater)):
            last = list(shifts_of_pair)[-1]
            interval = "" if last.low is None else f" ({last.low:+z.3f} to {last.high:+z.3f})"
            if last.difference is not None:
                yield (
                    f"{last.judge} minus {last.rater}: {last.difference:+z.3f}{interval} on "
                    f"{counted(last.answers, 'answer')} to {counted(last.tests, 'test')}"
                )


def bridge_of(run: Run, settings: ScoreSettings, rubrics: Mapping[str, Rubric]) -> Bridge:
    """Compare a run's judges with those of earlier studies; empty if the run has no verdicts by earlier judges.

    A varied judge is compared in the dimensions in which it has verdicts. Answers of subjects on which an earlier judge
    has no verdict in a dimension are left out, also of its map's mean: the map holds for no other subjects.
    """
    cells: dict[tuple[str, str], dict[str, Compared]] = {}
    for subject, dimension, table in run.further_verdicts(columns=VerdictMark._fields):
        earlier = _by_judge(row for row in map(VerdictMark._make, rows_in(table)) if row.kind == Rater.PUBLISHED)
        if not earlier:
            continue
        answered = _answered(run, settings, subject, dimension)
        letters = rubrics[dimension].issue_letters()
        calls = dict(zip(settings.tests[dimension], settings.calls_of(dimension), strict=True))
        for judge in _judges(run):
            verdicts = rows_in(run.verdicts(judge, subject, dimension, columns=VerdictMark._fields))
            now = _by_judge(map(VerdictMark._make, verdicts)).get(judge, {})
            if now or judge in settings.panel:
                for rater, then in earlier.items():
                    cell = cells.setdefault((judge, rater), {}).setdefault(dimension, Compared(calls))
                    _compare(cell, now, then, answered, letters)
    order = {judge: place for place, judge in enumerate(_judges(run))}
    compared = [(*pair, cells[pair]) for pair in sorted(cells, key=lambda pair: (pair[1], order[pair[0]]))]
    return Bridge(
        tuple(shift for each in compared for shift in shifts(*each)),
        tuple(issue for each in compared for issue in issue_shifts(*each)),
        tuple(level for each in compared for level in score_maps(*each)),
    )


def _judges(run: Run) -> Iterator[str]:
    """Yield every judge, followed by its variants."""
    varied = run.record.sweep.varied_judges
    for judge in run.panel:
        yield judge
        yield from (each.name for each in varied if each.base == judge)


def _by_judge(rows: Iterable[VerdictMark]) -> Mapping[str, Mapping[_Answer, list[VerdictMark]]]:
    found: dict[str, dict[_Answer, list[VerdictMark]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row.judge][row.test_id, row.sample].append(row)
    return found


def _answered(run: Run, settings: ScoreSettings, subject: str, dimension: str) -> set[_Answer]:
    """Return a subject's answers that can enter means."""
    rows = rows_in(run.responses(subject, dimension, columns=["test_id", "sample", "state", "finish"]))
    excluded = Finish.TRUNCATED if settings.truncated == "exclude" else None
    return {(test, sample) for test, sample, state, finish in rows if state == State.OK and finish != excluded}


def _compare(
    cell: Compared,
    now: Mapping[_Answer, list[VerdictMark]],
    then: Mapping[_Answer, list[VerdictMark]],
    answered: set[_Answer],
    letters: Sequence[str],
) -> None:
    """Add both judges' verdicts on one subject's answers."""
    for answer in sorted(now.keys() | then.keys()):
        readings = [(mark, row.issues or ()) for row in now.get(answer, ()) if (mark := row.mark) is not None]
        earlier = next(iter(then.get(answer, ())), None)
        if earlier and answer not in answered:
            cell.no_answer += 1
        elif earlier and earlier.mark is None:
            cell.failed_then += 1
        elif earlier and not readings:
            cell.failed_now += 1
        if readings and answer in answered:
            cell.add(answer[0], [mark for mark, _ in readings], earlier.mark if earlier else None)
            if earlier and earlier.mark is not None and earlier.issues is not None:
                for _, issues in readings:
                    cell.add_issues(letters, issues, earlier.issues)
