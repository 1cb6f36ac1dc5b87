"""Whether the order would be another, and why marks differ: made anew from the rows of a rehearsal, and compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import sqrt
from statistics import mean

from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.generalisability import DESIGN, Generalised, generalisability
from hab_ray.analysis.tables.robustness import ANY_ISSUE, AS_IT_IS, NO_FLOOR, ONE_POINT, RANK, robustness
from hab_ray.rehearse.claims import Answer, Named, by_test, calls_of, marks_by_answer, named_by_answer
from hab_ray.rehearse.figures import same
from hab_ray.rehearse.truth import Truth

_TOP = 10
_JUDGES, _TESTS, _REST = "subject x judge", "test x judge", "subject x test x judge, and the rest"
Marks = Mapping[Answer, Fraction | None]
Components = Mapping[str, Fraction | None]


def wrong_robustness(summary: Summary) -> Iterator[str]:
    """Means and ranks under each alternative that are others than the rows'."""
    run, found = summary.run, {(r.name, r.subject): r for r in robustness(summary) if r.kind == RANK}

    @cache
    def named(subject: str, dimension: str) -> Sequence[Named]:
        return [named_by_answer(summary, subject, dimension, [judge]) for judge in run.panel]

    ways: dict[str, Callable[[str, str], Marks]] = {
        AS_IT_IS: lambda subject, dimension: marks_by_answer(summary, subject, dimension, run.panel),
        **{f"without {judge}": _without(summary, judge) for judge in run.panel if len(run.panel) > 1},
        **{name: _by_points(summary, name, named) for name in (NO_FLOOR, ONE_POINT, ANY_ISSUE)},
    }
    known = {subject for _, subject in found}
    for name, marks in ways.items():
        means = {}
        for subject in known:
            parts = [list(by_test(marks(subject or "", dimension)).values()) for dimension in run.dimensions]
            means[subject] = mean([mean(part) for part in parts]) if all(parts) else None
        for subject, wanted in means.items():
            row = found.pop((name, subject), None)
            rank = None if wanted is None else 1 + sum(o is not None and o > wanted for o in means.values())
            if row is None or not same(row.value, wanted) or row.rank != rank:
                shown = row and (row.value, row.rank)
                yield f"{subject} {name} is {shown}, and must be {wanted and float(wanted)}, {rank}"
    yield from (f"there is an alternative {key} that nobody asked for" for key in found)


def _without(summary: Summary, judge: str) -> Callable[[str, str], Marks]:
    others = [other for other in summary.run.panel if other != judge]
    return lambda subject, dimension: marks_by_answer(summary, subject, dimension, others)


def _by_points(summary: Summary, name: str, read: Callable[[str, str], Sequence[Named]]) -> Callable[[str, str], Marks]:
    """The mean over judges of what each answer would score."""

    def marks(subject: str, dimension: str) -> Marks:
        points = {each.letter: each.deduction for each in summary.rubrics[dimension].judging.issues}
        score: Mapping[str, Callable[[Mapping[str, Fraction]], Fraction]] = {
            NO_FLOOR: lambda own: 1 - sum((own[x] * points[x] for x in points), Fraction(0)) / _TOP,
            ONE_POINT: lambda own: 1 - sum(own.values(), Fraction(0)) / len(points),
            ANY_ISSUE: lambda own: Fraction(all(share < Fraction(1, 2) for share in own.values())),
        }
        by_judge = read(subject, dimension)
        shared = [answer for answer in by_judge[0] if all(answer in named for named in by_judge)]
        return {answer: mean([score[name](named[answer]) for named in by_judge]) for answer in shared}

    return marks


def wrong_generalisability(summary: Summary, truth: Truth) -> Iterator[str]:
    """Components with judges that are others than the rows', and errors that do not follow from the components."""
    rows = generalisability(summary)
    for dimension in dict.fromkeys(row.dimension for row in rows if row.dimension != OVERALL):
        own = [row for row in rows if row.dimension == dimension]
        shown = {row.name: row.variance for row in own if row.kind != DESIGN}
        for name, wanted in _components(summary, dimension).items():
            if not same(found := shown.get(name), wanted):
                yield f"the variance of {name} in {dimension} is {found}, and must be {wanted and float(wanted)}"
        calls = list(calls_of(summary, truth, dimension).values())
        for row in (row for row in own if row.kind == DESIGN):
            if row.difference_error is not None and not same(row.difference_error, _error(shown, row, calls, summary)):
                yield f"the error of a difference by {row.name} in {dimension} does not follow from its components"


def _components(summary: Summary, dimension: str) -> Components:
    """By the mean squares of a crossed design, of the tests that all judges scored of all subjects."""
    run = summary.run
    cells = {
        (subject, judge): by_test(marks_by_answer(summary, subject, dimension, [judge]))
        for subject, judge in product(run.subjects, run.panel)
    }
    tests = [test for test in next(iter(cells.values())) if all(test in own for own in cells.values())]
    sizes = len(run.subjects), len(tests), len(run.panel)
    if min(sizes) < 2:
        return {}
    marks = {(s, t, j): own[t] for (s, j), own in cells.items() for t in tests}

    def averaged(*kept: int) -> Mapping[tuple[str, ...], Fraction]:
        groups: dict[tuple[str, ...], list[Fraction]] = defaultdict(list)
        for key, mark in marks.items():
            groups[tuple(key[at] for at in kept)].append(mark)
        return {key: mean(own) for key, own in groups.items()}

    whole, s, t, j = averaged()[()], averaged(0), averaged(1), averaged(2)
    st, sj, tj = averaged(0, 1), averaged(0, 2), averaged(1, 2)
    rest = [
        mark - st[a, b] - sj[a, c] - tj[b, c] + s[(a,)] + t[(b,)] + j[(c,)] - whole for (a, b, c), mark in marks.items()
    ]
    of_sj = [value - s[key[:1]] - j[key[1:]] + whole for key, value in sj.items()]
    of_tj = [value - t[key[:1]] - j[key[1:]] + whole for key, value in tj.items()]
    subjects, count, judges = (size - 1 for size in sizes)
    left = _squares(rest) / (subjects * count * judges)
    readings = summary.settings.samples * summary.settings.replicates
    noise = _between_readings(summary, dimension) if summary.settings.replicates > 1 else Fraction(0)
    return {
        _JUDGES: _squares(of_sj) / (subjects * judges) - left / sizes[1],
        _TESTS: _squares(of_tj) / (count * judges) - left / sizes[0],
        _REST: left - noise / readings,
    }


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


def _squares(values: Sequence[Fraction]) -> Fraction:
    return sum((each * each for each in values), Fraction(0))


def _error(shown: Mapping[str, float | None], row: Generalised, calls: Sequence[str], summary: Summary) -> float:
    """Twice the variance of a subject's mean that is its own: by calls, tests, judges and readings of the design."""
    var = defaultdict(float, {name: max(0.0, value) for name, value in shown.items() if value is not None})
    own = next(each for each in generalisability(summary) if each.dimension == row.dimension and each.kind == DESIGN)
    sizes = Counter(calls).values()
    groups = sum(sizes) ** 2 / sum(size * size for size in sizes) * row.tests / own.tests
    readings = row.replicates * summary.settings.samples
    by_judge = (var[_REST] + var["replicate"] / readings) / row.judges
    return sqrt(2 * (var["subject x call"] / groups + (var["subject x test"] + by_judge) / row.tests))
