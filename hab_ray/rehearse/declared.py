"""What a rehearsed sweep has declared, made anew from rows and truth, and compared with what is shown of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.standing import plan_of
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.declared import PRIMARY, DeclaredResult, declared
from hab_ray.config.preregistration import Compared, Correction, Family
from hab_ray.rehearse.claims import by_test, marks_by_answer, mean, same
from hab_ray.rehearse.figures import Figures

Key = tuple[str, str, str, str, str]


def wrong_declared(summary: Summary, planted: Mapping[tuple[str, str, str], Figures]) -> Iterator[str]:
    """Results that are others than planted or missing, of swapped sides, with swapped ends, or wrongly corrected."""
    plan = plan_of(summary.run.record)
    found = {_key(row): row for row in declared(summary)}
    if plan is None:
        yield from (f"{key} is shown, and nothing was declared" for key in found)
        return
    for subject in summary.run.subjects:
        row = found.pop((PRIMARY, subject, "", "", plan.primary.dimension), None)
        wanted = planted[subject, plan.primary.dimension, plan.primary.judge]
        ends = None if row is None else (row.value, row.low, row.high)
        if ends is None or not all(map(same, ends, (wanted.mean, wanted.low, wanted.high))):
            yield f"the primary outcome of {subject} is {ends}, and must be {wanted}"
    for family in plan.families:
        rows = []
        for key, value in _compared(summary, family):
            if (row := found.pop(key, None)) is None:
                yield f"the declared family {family.name} lacks {key}"
                continue
            rows.append(row)
            yield from _wrong(row, value, plan.margin)
        yield from _wrongly_corrected(family, rows, plan.alpha)
    yield from (f"{key} is shown, and was not declared" for key in found)


def _key(row: DeclaredResult) -> Key:
    return (row.family, row.one, row.other, row.within, row.dimension)


def _wrong(row: DeclaredResult, value: Fraction | None, margin: float) -> Iterator[str]:
    if not same(row.value, value):
        yield f"{_key(row)} is {row.value}, and must be {value if value is None else float(value)}"
    elif row.value is not None and row.low is not None and row.high is not None:
        if not row.low - 1e-9 <= row.value <= row.high + 1e-9:
            yield f"{_key(row)} has the interval {row.low} to {row.high}"
        if row.equal != (-margin <= row.low and row.high <= margin):
            yield f"{_key(row)} is {'' if row.equal else 'not '}called equal"


def _compared(summary: Summary, family: Family) -> Iterator[tuple[Key, Fraction | None]]:
    """The comparisons of a family and how far one is above the other."""
    run = summary.run

    def chosen(names: Sequence[str]) -> list[str]:
        return [name for name in names if not family.among or name in family.among]

    if family.compares is Compared.DIMENSIONS:
        for subject in run.subjects:
            for one, other in combinations(chosen(run.dimensions), 2):
                sides = [list(by_test(marks_by_answer(summary, subject, d, run.panel)).values()) for d in (one, other)]
                if all(sides):
                    yield (family.name, one, other, subject, ""), mean(sides[0]) - mean(sides[1])
        return
    is_of_judges = family.compares is Compared.JUDGES
    names = chosen((*run.panel, PANEL) if is_of_judges else run.subjects)
    for dimension in family.dimensions:
        over = run.dimensions if dimension == OVERALL else (dimension,)
        for one, other in combinations(names, 2):
            compare = _of_judges if is_of_judges else _of_subjects
            parts = [compare(summary, one, other, each) for each in over]
            known = [part for part in parts if part is not None]
            whole = mean(known) if len(known) == len(parts) else None
            yield (family.name, one, other, "", dimension), whole


def _of_subjects(summary: Summary, one: str, other: str, dimension: str) -> Fraction | None:
    panel = summary.run.panel
    first, second = (by_test(marks_by_answer(summary, name, dimension, panel)) for name in (one, other))
    steps = [first[test] - second[test] for test in first if test in second]
    return mean(steps) if steps else None


def _of_judges(summary: Summary, one: str, other: str, dimension: str) -> Fraction | None:
    """Over tests the mean over the answers of all subjects that both scored."""
    steps: dict[str, list[Fraction]] = {}
    for subject in summary.run.subjects:
        sides = [
            marks_by_answer(summary, subject, dimension, summary.run.panel if name == PANEL else [name])
            for name in (one, other)
        ]
        for answer, mark in sides[0].items():
            if mark is not None and (second := sides[1][answer]) is not None:
                steps.setdefault(answer[0], []).append(mark - second)
    return mean([mean(own) for own in steps.values()]) if steps else None


def _wrongly_corrected(family: Family, rows: Sequence[DeclaredResult], alpha: float) -> Iterator[str]:
    """By the definitions: the largest, or smallest, of what each p-value is worth among those before or after it."""
    tested = sorted((row.p, at) for at, row in enumerate(rows) if row.p is not None)
    count = len(tested)
    for rank, (p, at) in enumerate(tested):
        wanted = {
            Correction.NONE: p,
            Correction.BONFERRONI: p * count,
            Correction.HOLM: max((count - r) * q for r, (q, _) in enumerate(tested[: rank + 1])),
            Correction.BENJAMINI_HOCHBERG: min(q * count / (r + 1) for r, (q, _) in enumerate(tested) if r >= rank),
        }[family.correction]
        row = rows[at]
        if not same(row.adjusted, min(1.0, wanted)) or row.differs != (
            row.adjusted is not None and row.adjusted <= alpha
        ):
            yield f"{_key(row)} has the p-value {row.adjusted} after correction, and must have {min(1.0, wanted)}"
