"""Checks robustness, reliability and generalisability, recomputed from the rows of a rehearsal."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from math import comb, nan, sqrt
from random import Random
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.generalisability import AS_IT_IS as GIVEN
from hab_ray.analysis.tables.generalisability import DESIGN, Generalised, generalisability
from hab_ray.analysis.tables.robustness import (
    ANY_ISSUE,
    AS_IT_IS,
    MIN_SUBJECTS,
    NO_FLOOR,
    ONE_POINT,
    RANK,
    SEPARATE_NOBODY,
    SPLIT_HALF,
    WRONG_WAY,
    robustness,
)
from hab_ray.catalog.prices import NANO
from hab_ray.rehearse.figures import Lines, all_same, same, unequal
from hab_ray.rehearse.reader import Marks, Named, RunReader, by_test, most
from hab_ray.results import rows_in
from hab_ray.work import Work
from hab_simulator import MeterReading

_TOP, _DRAWS, _SIGMAS, _ROUNDING = 10, 500, 6, 1e-9
_JUDGES, _TESTS, _REST = "subject x judge", "test x judge", "subject x test x judge, and the rest"
Components = Mapping[str, Fraction | None]
CompleteMarks = Mapping[tuple[str, str, str], Fraction]
_TWICE = "twice the tests"
_MAKING = ("generate", "validate", "select")
# Factor on the tests, number of judges, and added replicates.
_SIZES: Mapping[str, Callable[[int], tuple[int, int, int]]] = {
    GIVEN: lambda judges: (1, judges, 0),
    _TWICE: lambda judges: (2, judges, 0),
    "four times the tests": lambda judges: (4, judges, 0),
    "one judge more": lambda judges: (1, judges + 1, 0),
    "twice the judges": lambda judges: (1, 2 * judges, 0),
    "one replicate more": lambda judges: (1, judges, 1),
}


def wrong_robustness(reader: RunReader) -> Iterator[str]:
    """Yield wrong means and ranks under each alternative."""
    run, rows = reader.run, robustness(reader.summary)
    found: Lines = {(row.name, row.subject or ""): (row.value, row.rank) for row in rows if row.kind == RANK}

    @cache
    def named(subject: str, dimension: str) -> Sequence[Named]:
        return [reader.named(subject, dimension, [judge]) for judge in run.panel]

    ways: dict[str, Callable[[str, str], Marks]] = {
        AS_IT_IS: lambda subject, dimension: reader.marks(subject, dimension, run.panel),
        **{f"without {judge}": _without(reader, judge) for judge in run.panel if len(run.panel) > 1},
        **{name: _by_points(reader, name, named) for name in (NO_FLOOR, ONE_POINT, ANY_ISSUE)},
    }
    wanted: Lines = {}
    for name, marks in ways.items():
        means = {}
        for subject in {subject for _, subject in found}:
            parts = [list(by_test(marks(subject, dimension)).values()) for dimension in run.dimensions]
            means[subject] = mean([mean(part) for part in parts]) if all(parts) else None
        for subject, own in means.items():
            rank = None if own is None else 1 + sum(other is not None and other > own for other in means.values())
            wanted[name, subject] = own, rank
    yield from unequal("score and rank", found, wanted)


def _without(reader: RunReader, judge: str) -> Callable[[str, str], Marks]:
    others = [other for other in reader.run.panel if other != judge]
    return lambda subject, dimension: reader.marks(subject, dimension, others)


def _by_points(
    reader: RunReader, name: str, read: Callable[[str, str], Sequence[Named]]
) -> Callable[[str, str], Marks]:
    """Return a function that averages over judges what each answer would score under the alternative."""

    def marks(subject: str, dimension: str) -> Marks:
        points = {each.letter: each.deduction for each in reader.summary.rubrics[dimension].judging.issues}
        score: Mapping[str, Callable[[Mapping[str, Fraction]], Fraction]] = {
            NO_FLOOR: lambda own: 1 - sum((own[x] * points[x] for x in points), Fraction(0)) / _TOP,
            ONE_POINT: lambda own: 1 - sum(own.values(), Fraction(0)) / len(points),
            ANY_ISSUE: lambda own: 1 - max(most(share) for share in own.values()),
        }
        by_judge = read(subject, dimension)
        shared = [answer for answer in by_judge[0] if all(answer in named for named in by_judge)]
        return {answer: mean([score[name](named[answer]) for named in by_judge]) for answer in shared}

    return marks


def wrong_reliability(reader: RunReader) -> Iterator[str]:
    """Yield wrong correlations of tests that all judges scored of all subjects, and of halves of all tests."""
    rows = robustness(reader.summary)
    found = {(row.dimension, row.name): row.value for row in rows if row.kind != RANK}
    for dimension in reader.run.dimensions if rows else ():
        marks, (subjects, tests, panel) = _complete(reader, dimension)
        if len(subjects) < MIN_SUBJECTS or len(tests) < 2:
            continue
        by_test = {test: [mean([marks[s, test, j] for j in panel]) for s in subjects] for test in tests}
        sums = [sum(own, Fraction(0)) for own in zip(*by_test.values(), strict=True)]
        rests = {test: [all_ - mark for all_, mark in zip(sums, own, strict=True)] for test, own in by_test.items()}
        wanted = {test: _correlation(own, rests[test]) for test, own in by_test.items()}
        known = [value for value in wanted.values() if value is not None]
        wanted[SEPARATE_NOBODY] = sum(len(set(own)) == 1 for own in by_test.values())
        wanted[WRONG_WAY] = sum(value < 0 for value in known)
        for name, value in wanted.items():
            if not same(shown := found.pop((dimension, name), None), value):
                yield f"{name} of {dimension} is {shown}, expected {value}"
        scores = [reader.means(subject, dimension, panel) for subject in subjects]
        every = [[float(own.get(test, nan)) for own in scores] for test in reader.calls(dimension)]
        value, tolerated = _split_half(np.array(every))
        shown = found.pop((dimension, SPLIT_HALF), None)
        if (shown is None) != (value is None) or abs((shown or 0) - (value or 0)) > tolerated:
            yield f"{SPLIT_HALF} of {dimension} is {shown}, expected {value}, within {tolerated}"
    yield from (f"there is an unexpected reliability {key}" for key in found)


def _correlation(one: Sequence[Fraction], other: Sequence[Fraction]) -> float | None:
    first, second = ([value - mean(own) for value in own] for own in (one, other))
    spread = _squares(first) * _squares(second)
    return float(sum(a * b for a, b in zip(first, second, strict=True))) / sqrt(spread) if spread else None


def _split_half(marks: NDArray[np.float64]) -> tuple[float | None, float]:
    """Return the mean reliability of tests x subjects and its tolerance, over all halves or newly drawn ones.

    Marks may be missing (nan): a subject's score in a half is the mean of those it has.
    """
    tests, half, random = len(marks), len(marks) // 2, Random(len(marks))
    if counted := tests % 2 == 0 and comb(tests, half) // 2 <= _DRAWS:
        ways = [[*one, *set(range(tests)).difference(one)] for one in combinations(range(tests), half)]
    else:
        ways = [random.sample(range(tests), 2 * half) for _ in range(_DRAWS)]
    found = []
    for way in ways:
        one, other = (np.ma.masked_invalid(marks[own]).mean(0).filled(nan) for own in (way[:half], way[half:]))
        if all(np.ptp(scores) > _ROUNDING for scores in (one, other)):
            r = float(np.corrcoef(one, other)[0, 1])
            found.append(max(-1.0, 2 * r / (1 + r)) if r > -1 + _ROUNDING else -1.0)
    if not found:
        return None, _ROUNDING
    return mean(found), _ROUNDING if counted else _ROUNDING + _SIGMAS * float(np.std(found)) * sqrt(2 / _DRAWS)


def wrong_generalisability(reader: RunReader) -> Iterator[str]:
    """Yield wrong variance components with judges, and designs that do not follow from components and bills."""
    summary = reader.summary
    rows = generalisability(summary)
    designs = {(row.dimension, row.name): row for row in rows if row.kind == DESIGN}
    dimensions = [name for name, design in designs if design == GIVEN and name != OVERALL]
    for dimension in dimensions:
        shown = {row.name: row.variance for row in rows if row.dimension == dimension and row.kind != DESIGN}
        for name, wanted in _components(reader, dimension).items():
            if not same(found := shown.get(name), wanted):
                yield f"the variance of {name} in {dimension} is {found}, expected {wanted and float(wanted)}"
        calls = list(reader.calls(dimension).values())
        for row in (row for (name, _), row in designs.items() if name == dimension):
            errors = (row.mean_error, row.difference_error, row.with_judges_error)
            wanted_errors = _errors(shown, row, calls, summary)
            if any(error is not None and not same(error, w) for error, w in zip(errors, wanted_errors, strict=True)):
                yield f"an error of {row.name} in {dimension} does not follow from its components"
            if not same(row.usd, dollars := _dollars(summary, row)):
                yield f"{row.name} in {dimension} costs {row.usd}, expected {dollars and float(dollars)}"
    shared = _shared_by_judges(reader, dimensions)
    for name in (name for dimension, name in designs if dimension == OVERALL):
        parts = [designs[dimension, name] for dimension in dimensions]
        whole, usd = designs[OVERALL, name], [part.usd for part in parts if part.usd is not None]
        error = [part.difference_error for part in parts if part.difference_error is not None]
        wanted_error = sqrt(sum(each**2 for each in error)) / len(parts) if len(error) == len(parts) else None
        is_known = wanted_error is not None and shared is not None
        by_others = (wanted_error or 0) ** 2 + float(2 * (shared or 0) / whole.judges) if is_known else None
        wanted_usd = sum(usd) if len(usd) == len(parts) else None
        squared = None if whole.with_judges_error is None else whole.with_judges_error**2
        if not all_same((whole.difference_error, squared, whole.usd), (wanted_error, by_others, wanted_usd)):
            yield f"{name} overall does not follow from {name} in each dimension"


def _dollars(summary: Summary, row: Generalised) -> Fraction | None:
    """Return the cost of a design beyond the run: answers and verdicts at their mean costs, and its tests.

    Rows with the same reply, as on equal answers, were paid for once. A verdict that was requested again cost twice.
    What a given answer costs is unknown, and matters only if there are to be more.
    """
    run, asked = summary.run, summary.settings
    columns = ["reply_key", "cost_nanousd"]
    answered = rows_in(run.responses(dimension=row.dimension, columns=columns))
    judged = rows_in(run.verdicts(dimension=row.dimension, columns=[*columns, "asks"]))
    of_answers = [(key, cost) for key, cost in answered if cost is not None]
    of_verdicts = [(key, cost * asks) for key, cost, asks in judged if cost is not None]
    more, judges, replicates = _SIZES[row.name](len(run.panel))
    if not of_verdicts or (more != 1 and not of_answers):
        return None
    answers = len(run.subjects) * len(asked.tests[row.dimension]) * asked.samples
    verdicts = more * judges * (asked.replicates + replicates) - len(run.panel) * asked.replicates
    answer, verdict = (Fraction(sum(dict(own).values()), len(own) or 1) for own in (of_answers, of_verdicts))
    return answers * ((more - 1) * answer + verdicts * verdict) / NANO + Fraction(row.making_usd or 0.0)


def wrong_making(work: Work, summary: Summary, meter: MeterReading) -> Iterator[str]:
    """Yield the cost of making as many tests again if the simulator charged another amount for making these.

    The meter tells calls apart by model, so there is nothing to compare if a subject or judge is of a model that made
    tests.
    """
    calling = [shard for shard in work.shards() if shard.spec.makes_calls]
    makers, others = (
        {work.model(shard).entry.wire for shard in calling if (shard.stage in _MAKING) is makes}
        for makes in (True, False)
    )
    rows = [row for row in generalisability(summary) if row.name == _TWICE and row.dimension != OVERALL]
    if not makers or makers & others or len(rows) < len(work.rubrics):
        return
    charges = [each for each in (*meter.models, *meter.batch.models) if each.model in makers]
    charged = sum(each.nanousd - each.lost_nanousd for each in charges)
    shown = sum(row.making_usd or 0.0 for row in rows)
    if round(shown * NANO) != charged:
        yield f"making as many tests again costs {shown}, but the simulator charged {charged / NANO} for making these"


def _complete(reader: RunReader, dimension: str) -> tuple[CompleteMarks, tuple[Sequence[str], ...]]:
    """Return the marks of tests that all judges scored of all subjects, and these subjects, tests and judges."""
    run = reader.run
    cells = {
        (subject, judge): reader.means(subject, dimension, [judge])
        for subject, judge in product(run.subjects, run.panel)
    }
    tests = [test for test in next(iter(cells.values())) if all(test in own for own in cells.values())]
    return {(s, t, j): own[t] for (s, j), own in cells.items() for t in tests}, (run.subjects, tests, run.panel)


def _components(reader: RunReader, dimension: str) -> Components:
    """Estimate variance components from the mean squares of a crossed design, over complete tests."""
    marks, names = _complete(reader, dimension)
    summary = reader.summary
    sizes = [len(each) for each in names]
    if min(sizes) < 2:
        return {}

    whole, s, t, j = (_averaged(marks, *kept) for kept in ((), (0,), (1,), (2,)))
    st, sj, tj = (_averaged(marks, *kept) for kept in ((0, 1), (0, 2), (1, 2)))
    rest = [
        mark - st[a, b] - sj[a, c] - tj[b, c] + s[(a,)] + t[(b,)] + j[(c,)] - whole[()]
        for (a, b, c), mark in marks.items()
    ]
    of_sj = _liking(marks).values()
    of_tj = [value - t[key[:1]] - j[key[1:]] + whole[()] for key, value in tj.items()]
    subjects, count, judges = (size - 1 for size in sizes)
    left = _squares(rest) / (subjects * count * judges)
    readings = summary.settings.samples * summary.settings.replicates
    noise = _between_readings(summary, dimension) if summary.settings.replicates > 1 else Fraction(0)
    return {
        _JUDGES: _squares(of_sj) / (subjects * judges) - left / sizes[1],
        _TESTS: _squares(of_tj) / (count * judges) - left / sizes[0],
        _REST: left - noise / readings,
    }


def _averaged(marks: CompleteMarks, *kept: int) -> Mapping[tuple[str, ...], Fraction]:
    groups: dict[tuple[str, ...], list[Fraction]] = defaultdict(list)
    for key, mark in marks.items():
        groups[tuple(key[at] for at in kept)].append(mark)
    return {key: mean(own) for key, own in groups.items()}


def _liking(marks: CompleteMarks) -> Mapping[tuple[str, ...], Fraction]:
    """Return by how much each judge scores each subject above what both score on average."""
    whole, s, j, sj = (_averaged(marks, *kept) for kept in ((), (0,), (2,), (0, 2)))
    return {key: value - s[key[:1]] - j[key[1:]] + whole[()] for key, value in sj.items()}


def _shared_by_judges(reader: RunReader, dimensions: Sequence[str]) -> Fraction | None:
    """Return the variance of a subject's overall mean between judges: each dimension's, and what two have in common."""
    subjects, judges = len(reader.run.subjects), len(reader.run.panel)
    if judges < 2 or not dimensions:
        return None
    own = sum((_components(reader, dimension)[_JUDGES] or Fraction(0) for dimension in dimensions), Fraction(0))
    tables = [_liking(_complete(reader, dimension)[0]) for dimension in dimensions]
    common = sum((one[key] * other[key] for one, other in permutations(tables, 2) for key in one), Fraction(0))
    return max(Fraction(0), own + common / ((subjects - 1) * (judges - 1))) / len(dimensions) ** 2


def _between_readings(summary: Summary, dimension: str) -> Fraction:
    given: dict[tuple[str, ...], list[Fraction]] = defaultdict(list)
    for judge, subject in product(summary.run.panel, summary.run.subjects):
        columns = ["test_id", "sample", "score"]
        for row in summary.run.verdicts(judge, subject, dimension, columns=columns).to_pylist():
            if row["score"] is not None:
                key = (judge, subject, row["test_id"], str(row["sample"]))
                given[key].append(Fraction(row["score"]) / _TOP)
    spread = sum((_squares([mark - mean(own) for mark in own]) for own in given.values()), Fraction(0))
    freedom = sum(len(own) - 1 for own in given.values())
    return spread / freedom if freedom else Fraction(0)


def _squares(values: Iterable[Fraction]) -> Fraction:
    return sum((each * each for each in values), Fraction(0))


def _errors(
    shown: Mapping[str, float | None], row: Generalised, calls: Sequence[str], summary: Summary
) -> tuple[float, float, float]:
    """Return the standard errors of a subject's mean, of a difference, and of a difference by other judges.

    They are nan if the design's calls made several tests, and its components do not tell calls from tests.
    """
    known = defaultdict(float, {name: value for name, value in shown.items() if value is not None})
    var = defaultdict(float, {name: max(0.0, value) for name, value in known.items()})
    sizes, more = Counter(calls).values(), _SIZES[row.name](row.judges)[0]
    tests, groups = more * len(calls), more * sum(sizes) ** 2 / sum(size * size for size in sizes)
    if shown["subject x call"] is None and len(sizes) < len(calls):
        return nan, nan, nan
    readings = row.replicates * summary.settings.samples
    by_judge = (var[_REST] + var["replicate"] / readings) / row.judges
    own = max(0.0, known["subject x call"] / groups + known["subject x test"] / tests) + by_judge / tests
    of_tests = max(0.0, known["call"] / groups + known["test"] / tests) + var[_TESTS] / row.judges / tests
    return sqrt(own + of_tests), sqrt(2 * own), sqrt(2 * (own + var[_JUDGES] / row.judges))
