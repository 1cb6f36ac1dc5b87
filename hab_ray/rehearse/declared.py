"""Checks the declared analysis of a rehearsed sweep, recomputed from rows and truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb
from statistics import mean

from scipy.special import betainc

from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.preregistration import plan_of
from hab_ray.analysis.tables.declared import DeclaredResult, declared
from hab_ray.config.preregistration import PRIMARY, Compared, Correction, Family
from hab_ray.rehearse.claims import benjamini_hochberg, holm
from hab_ray.rehearse.figures import Figures, all_same, same
from hab_ray.rehearse.reader import RunReader

Key = tuple[str, str, str, str, str]


def wrong_declared(reader: RunReader, planted: Mapping[tuple[str, str, str], Figures]) -> Iterator[str]:
    """Yield declared results that are wrong, missing, unexpected or wrongly corrected."""
    plan, run = plan_of(reader.run.record), reader.run
    found = {_key(row): row for row in declared(reader.summary)}
    if plan is None:
        yield from (f"{key} is shown, but nothing was declared" for key in found)
        return
    for subject in run.subjects:
        row = found.pop((PRIMARY, subject, "", "", plan.primary.dimension), None)
        wanted = planted[subject, plan.primary.dimension, plan.primary.judge]
        ends = None if row is None else (row.value, row.low, row.high)
        if ends is None or not all_same(ends, (wanted.mean, wanted.low, wanted.high)):
            yield f"the primary outcome of {subject} is {ends}, expected {wanted}"
    for family in plan.families:
        rows = []
        for key, value in _compared(reader, family):
            if (row := found.pop(key, None)) is None:
                yield f"the declared family {family.name} lacks {key}"
                continue
            rows.append(row)
            yield from _wrong(row, value, plan.margin)
            if family.compares is Compared.DIMENSIONS and not same(row.p, p := _p_of_dimensions(reader, row)):
                yield f"the p-value of {_key(row)} is {row.p}, expected {p}"
        yield from _wrongly_corrected(family, rows, plan.alpha)
    yield from (f"{key} is shown, but was not declared" for key in found)


def _key(row: DeclaredResult) -> Key:
    return (row.family, row.one, row.other, row.within, row.dimension)


def _wrong(row: DeclaredResult, value: Fraction | None, margin: float) -> Iterator[str]:
    if not same(row.value, value):
        yield f"{_key(row)} is {row.value}, expected {value if value is None else float(value)}"
    elif row.value is not None and row.low is not None and row.high is not None:
        if not row.low - 1e-9 <= row.value <= row.high + 1e-9:
            yield f"{_key(row)} has the interval {row.low} to {row.high}"
        if row.equal != (-margin <= row.low and row.high <= margin):
            yield f"{_key(row)} is {'' if row.equal else 'not '}called equal"


def _compared(reader: RunReader, family: Family) -> Iterator[tuple[Key, Fraction | None]]:
    run = reader.run

    def chosen(names: Sequence[str]) -> list[str]:
        return [name for name in names if not family.among or name in family.among]

    if family.compares is Compared.DIMENSIONS:
        for subject in run.subjects:
            for one, other in combinations(chosen(run.dimensions), 2):
                sides = [list(reader.means(subject, d, run.panel).values()) for d in (one, other)]
                if all(sides):
                    yield (family.name, one, other, subject, ""), mean(sides[0]) - mean(sides[1])
        return
    is_of_judges = family.compares is Compared.JUDGES
    names = chosen((*run.panel, PANEL) if is_of_judges else run.subjects)
    for dimension in dict.fromkeys(family.dimensions):
        over = run.dimensions if dimension == OVERALL else (dimension,)
        for one, other in combinations(names, 2):
            compare = _of_judges if is_of_judges else _of_subjects
            parts = [compare(reader, one, other, each) for each in over]
            known = [part for part in parts if part is not None]
            middle = mean(known) if len(known) == len(parts) else None
            yield (family.name, one, other, "", dimension), middle


def _p_of_dimensions(reader: RunReader, row: DeclaredResult) -> float | None:
    """Return the p-value of the difference of two means, each with its own error by generation call.

    A call's residuals are weighted by the inverse of the share of tests that other calls have.
    """
    middles, errors, sizes, freedom = [], [], [], []
    for dimension in (row.one, row.other):
        means, calls = reader.means(row.within, dimension, reader.run.panel), reader.calls(dimension)
        tests: dict[str, list[Fraction]] = {}
        for test, mark in means.items():
            tests.setdefault(calls[test], []).append(mark)
        middle, number = mean(means.values()), len(means)
        if len(tests) < 2:
            return None
        residuals = [(sum(own) - len(own) * middle, Fraction(len(own), number)) for own in tests.values()]
        errors.append(sum(rest * rest / (1 - share) for rest, share in residuals) / number**2)
        freedom.append(1 / sum(share * share for _, share in residuals) - 1)
        middles.append(middle)
        sizes.append(len(tests))
    if not (whole := sum(errors)):
        return None if middles[0] == middles[1] else 2 / comb(sum(sizes), sizes[0])
    degrees = float(whole**2 / sum(error * error / each for error, each in zip(errors, freedom, strict=True)))
    ratio = float((middles[0] - middles[1]) ** 2 / whole)
    return float(betainc(degrees / 2, 0.5, degrees / (degrees + ratio)))


def _of_subjects(reader: RunReader, one: str, other: str, dimension: str) -> Fraction | None:
    first, second = (reader.means(name, dimension, reader.run.panel) for name in (one, other))
    steps = [first[test] - second[test] for test in first if test in second]
    return mean(steps) if steps else None


def _of_judges(reader: RunReader, one: str, other: str, dimension: str) -> Fraction | None:
    """Average the difference of two judges over the answers to each test that both scored, then over tests."""
    steps: dict[str, list[Fraction]] = {}
    seats = [reader.run.panel if name == PANEL else [name] for name in (one, other)]
    for subject in reader.run.subjects:
        sides = [reader.marks(subject, dimension, judges) for judges in seats]
        for answer, mark in sides[0].items():
            if mark is not None and (second := sides[1][answer]) is not None:
                steps.setdefault(answer[0], []).append(mark - second)
    return mean([mean(own) for own in steps.values()]) if steps else None


def _wrongly_corrected(family: Family, rows: Sequence[DeclaredResult], alpha: float) -> Iterator[str]:
    """Yield p-values that are wrongly corrected, or wrongly called different at `alpha`."""
    tested = [row.p for row in rows if row.p is not None]
    for row in (row for row in rows if row.p is not None):
        p = row.p or 0.0
        expected = {
            Correction.NONE: p,
            Correction.BONFERRONI: min(1.0, p * len(tested)),
            Correction.HOLM: holm(p, tested),
            Correction.BENJAMINI_HOCHBERG: benjamini_hochberg(p, tested),
        }[family.correction]
        if not same(row.adjusted, expected) or row.differs != (row.adjusted is not None and row.adjusted <= alpha):
            yield f"{_key(row)} has the p-value {row.adjusted} after correction, expected {expected}"
