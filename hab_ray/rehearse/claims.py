"""Checks a run's claims about its subjects (issue rates, paired differences, ranks), recomputed from its rows.

`rows` compares the rows themselves with the planted truth. All arithmetic here is in fractions; with few enough tests,
p-values are computed exactly, by counting signs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from math import hypot
from statistics import mean
from typing import NamedTuple

import pyarrow as pa

from hab_ray.analysis.across.comparison import compare_runs
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.tables.differences import PairedDifference, differences
from hab_ray.analysis.tables.issues import issues
from hab_ray.analysis.tables.leaderboard import Rank, leaderboard
from hab_ray.rehearse.figures import Figures, Item, Lines, figures_of, mean_of, same, unequal
from hab_ray.rehearse.reader import RunReader, by_test
from hab_ray.results import Run
from hab_ray.results.run import Columns

_TOP, _MAX_COUNTED = 10, 24


def wrong_differences(reader: RunReader) -> Iterator[str]:
    """Yield missing pairs, wrong differences, intervals and p-values, and ranks that do not follow from them."""
    rows, run = differences(reader.summary), reader.run
    means = {
        (subject, dimension): reader.means(subject, dimension, run.panel)
        for subject, dimension in product(run.subjects, run.dimensions)
    }
    calls = {dimension: reader.calls(dimension) for dimension in run.dimensions}
    items: dict[tuple[str, ...], Sequence[Sequence[Item]]] = {}
    for one, other in combinations(run.subjects, 2):
        parts = [_items(means[one, name], means[other, name], calls[name]) for name in run.dimensions]
        items |= {(one, other, name): [own] for name, own in zip(run.dimensions, parts, strict=True)}
        items[one, other, OVERALL] = parts
    figures = {pair: mean_of([figures_of(own, -1) for own in over]) for pair, over in items.items()}
    wanted: Lines = {pair: (own.mean, own.low, own.high) for pair, own in figures.items()}
    shown: Lines = {(row.subject, row.other, row.dimension): (row.difference, row.low, row.high) for row in rows}
    yield from unequal("the difference", shown, wanted)
    for row in rows:
        flipped = items.get((row.subject, row.other, row.dimension), ())
        p = None if row.difference is None else _p(flipped)
        if p is not None and (row.p is None or abs(row.p - p) > _tolerance(flipped)):
            yield f"the p-value of {row.subject}, {row.other}, {row.dimension} is {row.p}, expected {p}"
    for dimension in (OVERALL, *run.dimensions):
        yield from _wrongly_corrected([row for row in rows if row.dimension == dimension])
    yield from _wrong_ranks(rows, leaderboard(reader.summary))


def _wrongly_corrected(rows: Sequence[PairedDifference]) -> Iterator[str]:
    """Yield pairs of a dimension with a wrong p-value after Holm's correction, or wrongly called different or equal."""
    tested = [row for row in rows if row.p is not None]
    for row in tested:
        expected = holm(row.p or 0.0, [each.p or 0.0 for each in tested])
        pair = f"{row.subject} and {row.other} in {row.dimension}"
        if not same(row.holm, expected) or row.differs != (row.holm is not None and row.holm <= 0.05):
            yield f"Holm's p of {pair} is {row.holm}, expected {expected}"
        if row.equal != (
            row.low is not None and row.high is not None and -row.margin <= row.low and row.high <= row.margin
        ):
            yield f"{pair} are {'' if row.equal else 'not '}called equal"


def _tolerance(parts: Sequence[Sequence[Item]]) -> float:
    """Return the tolerance of a p-value: over several dimensions, rounding may tie up to two more sign patterns."""
    flips = sum(len({item.call for item in items}) for items in parts)
    return 1e-9 if len(parts) == 1 else max(1e-9, 4.0 * 2.0**-flips)


def _p(parts: Sequence[Sequence[Item]]) -> float | None:
    """Return the exact sign-flip p-value by call; None if there are too many calls to count all sign patterns."""
    sums: dict[tuple[int, str], Fraction] = defaultdict(Fraction)
    for at, items in enumerate(parts):
        for item in items:
            sums[at, item.call] += item.mark / len(items)
    if len(sums) > _MAX_COUNTED:
        return None
    far = abs(sum(sums.values(), Fraction(0)))
    return float(_chance_beyond(far, [(step, -step) for step in sums.values()]))


def _chance_beyond(far: Fraction, parts: Sequence[Sequence[Fraction]], expected: Fraction = Fraction(0)) -> Fraction:
    """Return the chance that a sum of one value of each part, all equally likely, is as far from the expected one."""
    chances = {Fraction(0): Fraction(1)}
    for values in parts:
        reached: dict[Fraction, Fraction] = defaultdict(Fraction)
        for (so_far, chance), value in product(chances.items(), values):
            reached[so_far + value] += chance / len(values)
        chances = reached
    return sum((chance for total, chance in chances.items() if abs(total - expected) >= far), Fraction(0))


def _wrong_ranks(rows: Sequence[PairedDifference], board: Sequence[Rank]) -> Iterator[str]:
    different = [row for row in rows if row.dimension == OVERALL and row.holm is not None and row.holm <= 0.05]
    worse = Counter(row.other if (row.difference or 0) > 0 else row.subject for row in different)
    better = Counter(row.subject if (row.difference or 0) > 0 else row.other for row in different)
    ranked = [rank for rank in board if rank.mean is not None]
    for rank in ranked:
        expected = (1 + worse[rank.subject], len(ranked) - better[rank.subject])
        if (rank.first, rank.last) != expected:
            yield f"the rank of {rank.subject} is shown as {rank.first} to {rank.last}, expected {expected}"


@dataclass(frozen=True)
class _Reworded(Run):
    reworded: str = ""

    def tests(self, dimension: str | None = None, *, columns: Columns = None) -> pa.Table:
        table = super().tests(dimension, columns=columns)
        if dimension != self.reworded:
            return table
        prompts = pa.array([f"{prompt} again" for prompt in table["prompt"].to_pylist()])
        return table.set_column(table.column_names.index("prompt"), "prompt", prompts)


class _Change(NamedTuple):
    """A subject's means in two runs, their difference, and its pairs if it is paired."""

    first: float | None
    second: float | None
    between: Figures
    pairs: Sequence[Sequence[Item]] = ()


def wrong_comparison(reader: RunReader) -> Iterator[str]:
    """Check `hab compare` of the run with a copy scored by its last judge alone, with other tests in one dimension."""
    summary, run = reader.summary, reader.run
    judge, apart = run.panel[-1], run.dimensions[-1]
    alone = {
        way: tuple(replace(own, judge=PANEL) for own in marks if own.judge == judge)
        for way, marks in summary.marks.items()
    }
    if not all(alone.values()):
        yield f"there are no marks of {judge}"
        return
    rows = compare_runs(summary, replace(summary, run=_Reworded(run.location, run.record, reworded=apart), marks=alone))
    changes: dict[tuple[str, ...], _Change] = {}
    for subject in run.subjects:
        parts = []
        for dimension in run.dimensions:
            one, other = (reader.means(subject, dimension, who) for who in (run.panel, [judge]))
            change = _unpaired if dimension == apart else _paired
            parts.append(change(one, other, reader.calls(dimension)))
            changes[subject, dimension] = parts[-1]
        if len(parts) > 1:
            first, second = _mean([each.first for each in parts]), _mean([each.second for each in parts])
            changes[subject, OVERALL] = _Change(first, second, mean_of([each.between for each in parts]))
    shown: Lines = {(r.subject, r.dimension): (r.first, r.second, r.difference, r.low, r.high) for r in rows}
    wanted: Lines = {
        key: (each.first, each.second, each.between.mean, each.between.low, each.between.high)
        for key, each in changes.items()
    }
    yield from unequal("in two runs, the score", shown, wanted)
    for row in rows:
        own = changes.get((row.subject, row.dimension))
        pairs = own.pairs if own and own.between.low is not None else ()
        p = _p(pairs) if pairs else None
        if own and (p is not None or not pairs) and not same(row.p, p):
            yield f"the p-value of {row.subject} in two runs is {row.p}, expected {p}"
        family = [each.p for each in rows if each.dimension == row.dimension and each.p is not None]
        if row.p is not None and not same(row.holm, expected := holm(row.p, family)):
            yield f"Holm's p of {row.subject} in two runs in {row.dimension} is {row.holm}, expected {expected}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None


def _paired(one: Mapping[str, Fraction], other: Mapping[str, Fraction], calls: Mapping[str, str]) -> _Change:
    items = _items(other, one, calls)
    if not items:
        return _Change(None, None, figures_of([]))
    first, second = (float(mean(own[test] for test in one if test in other)) for own in (one, other))
    return _Change(first, second, figures_of(items, -1), [items])


def _unpaired(one: Mapping[str, Fraction], other: Mapping[str, Fraction], calls: Mapping[str, str]) -> _Change:
    """Compare two independent means; the distances of the interval's ends add in quadrature."""
    first, second = (figures_of([Item(mark, 1, calls[test]) for test, mark in own.items()]) for own in (one, other))
    if first.mean is None or second.mean is None:
        return _Change(None, None, figures_of([]))
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return _Change(first.mean, second.mean, Figures(second.mean - first.mean, None, None, 0))
    below, above = (
        hypot(second.mean - second.low, first.high - first.mean),
        hypot(second.high - second.mean, first.mean - first.low),
    )
    step = second.mean - first.mean
    return _Change(first.mean, second.mean, Figures(step, max(-1.0, step - below), min(1.0, step + above), 0))


def holm(p: float, tested: Sequence[float]) -> float:
    """Return a p-value after Holm's correction, by its definition."""
    return min(1.0, max((len(tested) - rank) * each for rank, each in enumerate(sorted(tested)) if each <= p))


def benjamini_hochberg(p: float, tested: Sequence[float]) -> float:
    """Return a p-value after Benjamini's and Hochberg's correction, by its definition."""
    return min(1.0, min(each * len(tested) / rank for rank, each in enumerate(sorted(tested), 1) if each >= p))


def wrong_issues(reader: RunReader) -> Iterator[str]:
    """Yield issue rates, their intervals, and shares of lost points that differ from the rows'."""
    summary, run = reader.summary, reader.run
    calls = {dimension: reader.calls(dimension) for dimension in run.dimensions}
    found = {(row.subject, row.dimension, row.judge, row.issue): row for row in issues(summary)}
    seats = {**{judge: (judge,) for judge in run.panel}, PANEL: run.panel}
    wanted: Lines = {}
    for subject, dimension, (judge, names) in product(run.subjects, run.dimensions, seats.items()):
        named = reader.named(subject, dimension, names)
        points = {issue.letter: issue.deduction for issue in summary.rubrics[dimension].judging.issues}
        costs = {
            letter: sum((each[letter] for each in named.values()), Fraction(0)) * points[letter] for letter in points
        }
        for letter in points:
            rates = by_test({answer: each[letter] for answer, each in named.items()})
            figures = figures_of([Item(share, 1, calls[dimension][test]) for test, share in rates.items()])
            lost = float(costs[letter] / total) if (total := sum(costs.values(), Fraction(0))) else None
            wanted[subject, dimension, judge, letter] = (figures.mean, figures.low, figures.high, lost)
    shown: Lines = {key: (row.rate, row.low, row.high, row.lost) for key, row in found.items()}
    yield from unequal("the issue", shown, wanted)
    for dimension in run.dimensions:
        by_panel = {subject: reader.named(subject, dimension, run.panel) for subject in run.subjects}
        for letter in summary.rubrics[dimension].issue_letters():
            shares = {
                subject: by_test({answer: each[letter] for answer, each in named.items()})
                for subject, named in by_panel.items()
            }
            for subject, (others, p) in ((s, _among(s, shares, calls[dimension])) for s in run.subjects):
                row = found.get((subject, dimension, PANEL, letter))
                if row is not None and not (same(row.others, others) and (p is None or same(row.p, p))):
                    pair = (row.others, row.p)
                    yield f"issue {letter} of {subject}, {dimension}, beside others is {pair}, expected {(others, p)}"
    tested = [row.p for row in found.values() if row.p is not None]
    for row in found.values():
        if row.p is not None and not same(row.q, q := benjamini_hochberg(row.p, tested)):
            yield f"q of issue {row.issue} of {row.subject}, {row.dimension}, is {row.q}, expected {q}"


def _among(
    subject: str, shares: Mapping[str, Mapping[str, Fraction]], calls: Mapping[str, str]
) -> tuple[Fraction | None, Fraction | None]:
    """Return the other subjects' mean rate on a subject's tests, and the p-value of its sum.

    The p-value is exact, over drawing one subject in each call; it is None if there are too many calls to count.
    """
    own = shares[subject]
    rest = {test: [each[test] for name, each in shares.items() if name != subject and test in each] for test in own}
    means = [mean(given) for given in rest.values() if given]
    if not means:
        return None, None
    tests: dict[str, list[str]] = defaultdict(list)
    for test in own:
        tests[calls[test]].append(test)
    if len(tests) > _MAX_COUNTED:
        return mean(means), None
    parts = [
        [sum((each[t] for t in asked), Fraction(0)) for each in shares.values() if all(t in each for t in asked)]
        for asked in tests.values()
    ]
    expected = sum(map(mean, parts), Fraction(0))
    return mean(means), _chance_beyond(abs(sum(own.values(), Fraction(0)) - expected), parts, expected)


def _items(one: Mapping[str, Fraction], other: Mapping[str, Fraction], calls: Mapping[str, str]) -> list[Item]:
    return [Item(one[test] - other[test], 1, calls[test]) for test in one if test in other]
