"""The results of the preregistered analysis: the primary outcome, and each family of comparisons."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, sqrt

import numpy as np
from scipy.special import stdtr

from hab_ray.analysis.intervals import Interval, apart, ends, interval, lies_within, mean_by_call
from hab_ray.analysis.marks import OVERALL, PANEL, ItemScores
from hab_ray.analysis.pairs import adjusted, ahead, of_known, over_dimensions
from hab_ray.analysis.preregistration import plan_of, was_beforehand, was_edited
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.signflips import p_beside_mean
from hab_ray.analysis.summary import Summary
from hab_ray.config.preregistration import PRIMARY, AnalysisPlan, Compared, Family
from hab_ray.visible import decimal

_SHOWN, _ROUNDING = 5, 1e-12
_Found = tuple[int, Interval | None, float | None]


@dataclass(frozen=True, slots=True)
class DeclaredResult:
    """A mean of the primary outcome (`family` is "primary", `other` empty), or a comparison of a family.

    Subjects are compared in a dimension or overall by the panel's marks, judges over the answers of all subjects that
    both scored, dimensions `within` a subject. `value` is the mean, or `one` less `other`, with a 95 % interval. `p` is
    that of the sign-flip test by generation call; of a judge and the panel, the larger of this one and that of a
    randomisation test in which the judge may be any of the panel; of dimensions, which share no tests, of Welch's test
    of the means of tests with errors by call. `adjusted` is `p` with the family's correction; `differs` says whether it
    is at most the declared alpha, `equal` whether the interval lies within the declared margin.
    """

    family: str
    one: str
    other: str
    within: str
    dimension: str
    judge: str
    tests: int
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    adjusted: float | None
    differs: bool
    equal: bool


@dataclass(frozen=True)
class ShownPlan:
    """The plan and its results, those of the primary outcome by descending mean."""

    plan: AnalysisPlan
    rows: Sequence[DeclaredResult]


def _shown(summary: Summary, rows: Sequence[DeclaredResult]) -> ShownPlan | None:
    plan = plan_of(summary.run.record)
    return ShownPlan(plan, rows) if plan else None


@analysis(DeclaredResult, order=5, heading="Declared analysis", layout=_shown)
def declared(summary: Summary) -> Sequence[DeclaredResult]:
    """Return the declared results, if any; names that the sweep lacks are ignored."""
    plan = plan_of(summary.run.record)
    if plan is None:
        return []
    rows = list(_primary(summary, plan))
    for family in plan.families:
        compare = _dimensions if family.compares is Compared.DIMENSIONS else _paired
        rows += _corrected(list(compare(summary, family, plan)), family, plan.alpha)
    return rows


def sentences(summary: Summary) -> Iterator[str]:
    """Describe the declared results, if any, in a line for the question and one per family."""
    plan, rows = plan_of(summary.run.record), declared(summary)
    if plan is None:
        return
    outcome = f"mean score, {plan.primary.dimension}, by {plan.primary.judge}"
    known = [row for row in rows if row.family == PRIMARY and row.value is not None]
    shown = dict.fromkeys((known[0], known[-1])) if known else ()
    ends = " to ".join(f"{row.one} {decimal(row.value or 0.0, 2)}" for row in shown) or "none"
    record = summary.run.record
    when = "beforehand" if was_beforehand(record) else "after the first answers"
    if was_edited(record.declarations[-1]):
        when += ", and edited in the run's sweep.yaml since"
    yield f"Declared {when}: {plan.primary.question or outcome} ({outcome}: {ends})"
    for family in plan.families:
        own = [row for row in rows if row.family == family.name]
        apart = [row for row in own if row.differs]
        if not own:
            yield f"Declared family {family.name}: there is nothing to compare"
            continue
        named = ", ".join(_sentence(row) for row in apart[:_SHOWN]) + (", ..." if len(apart) > _SHOWN else "")
        yield (
            f"Declared family {family.name}: {len(apart)} of {len(own)} comparisons differ at {plan.alpha:g} "
            f"(correction: {family.correction}){': ' if named else ''}{named}"
        )


def _sentence(row: DeclaredResult) -> str:
    one, other = (row.one, row.other) if (row.value or 0) > 0 else (row.other, row.one)
    where = row.within or row.dimension
    return f"{one} above {other} by {abs(row.value or 0):.3f} ({where})"


def _primary(summary: Summary, plan: AnalysisPlan) -> Iterator[DeclaredResult]:
    wanted, over = (plan.primary.dimension, plan.primary.judge), _within(summary, plan.primary.dimension)
    scores = [score for score in summary.scores if (score.dimension, score.judge) == wanted]
    for score in sorted(scores, key=lambda score: (-(score.mean if score.mean is not None else -1), score.subject)):
        mean = (score.mean, score.low, score.high)
        tests = sum(len(summary.cells[score.subject, name, wanted[1]].known()[0]) for name in over)
        yield DeclaredResult(PRIMARY, score.subject, "", "", *wanted, tests, *mean, None, None, False, False)


def _chosen(family: Family, names: Sequence[str]) -> list[str]:
    return [name for name in names if not family.among or name in family.among]


def _within(summary: Summary, dimension: str) -> tuple[str, ...]:
    """Return the dimensions that a declared one covers: all for "overall", none if the sweep lacks it."""
    return tuple(name for name in summary.settings.tests if dimension in (OVERALL, name))


def _paired(summary: Summary, family: Family, plan: AnalysisPlan) -> Iterator[DeclaredResult]:
    """Compare subjects by the panel's marks, or judges by their marks of all subjects' answers."""
    of_judges, cells = family.compares is Compared.JUDGES, summary.cells
    names = (*summary.settings.panel, PANEL) if of_judges else summary.settings.subjects
    for dimension in dict.fromkeys(family.dimensions):
        over = _within(summary, dimension)
        for one, other in combinations(_chosen(family, names), 2) if over else ():
            if of_judges:
                found = _judges_apart(summary, (one, other), over)
            else:
                found = over_dimensions([ahead(cells[one, name, PANEL], cells[other, name, PANEL]) for name in over])
            what = (one, other, "", dimension, "" if of_judges else PANEL)
            yield _row(family, what, found, plan.margin)


def _judges_apart(summary: Summary, judges: tuple[str, str], over: Sequence[str]) -> _Found:
    """Compare two judges, or a judge with the panel, over the answers that both scored."""
    tests, difference, p = over_dimensions([ahead(*_of_all(summary, judges, name)) for name in over])
    if p is None or judges[1] != PANEL:
        return tests, difference, p
    panel = summary.settings.panel
    leads = [[ahead(*_of_all(summary, (judge, PANEL), name)) for judge in panel] for name in over]
    known = [[lead for lead in own if lead] for own in leads]
    sums = [np.array([lead.sums for lead in own]) for own in known]
    return tests, difference, p_beside_mean(panel.index(judges[0]), sums, [own[0].difference.tests for own in known])


def _of_all(summary: Summary, judges: tuple[str, str], dimension: str) -> tuple[ItemScores, ItemScores]:
    """Return two judges' marks of the answers that both scored, pooled over all subjects."""
    cells, calls = summary.cells, summary.settings.calls_of(dimension)
    sides = [
        np.concatenate([cells[subject, dimension, judge].by_test for subject in summary.settings.subjects], axis=1)
        for judge in judges
    ]
    is_missing = np.isnan(sides).any(axis=0)
    one, other = (
        ItemScores("", dimension, judge, np.where(is_missing, np.nan, own), 0, calls)
        for judge, own in zip(judges, sides, strict=True)
    )
    return one, other


def _row(
    family: Family,
    what: tuple[str, str, str, str, str],
    found: _Found,
    margin: float,
) -> DeclaredResult:
    """Return a comparison without correction; `found` holds the number of tests, the difference and its p-value."""
    tests, difference, p = found
    value, low, high = ends(difference)
    equal = lies_within(low, high, margin)
    return DeclaredResult(family.name, *what, tests, value, low, high, p, adjusted=None, differs=False, equal=equal)


def _dimensions(summary: Summary, family: Family, plan: AnalysisPlan) -> Iterator[DeclaredResult]:
    for subject in summary.settings.subjects:
        for one, other in combinations(_chosen(family, tuple(summary.settings.tests)), 2):
            sides = [summary.cells[subject, name, PANEL].known() for name in (one, other)]
            if not all(values for values, _ in sides):
                continue
            found = apart(*(interval(*side) for side in sides))
            p = p_of_separate(sides)
            yield _row(family, (one, other, subject, "", PANEL), (found.tests, found, p), plan.margin)


def p_of_separate(sides: Sequence[tuple[Sequence[float], Sequence[Hashable]]]) -> float | None:
    """Return the p-value of the difference of two means, given the marks and calls of two separate sets of tests.

    By Welch's t, with bias-reduced errors by call (CR2) and Satterthwaite's degrees of freedom. Without spread between
    the calls of either side, for which it would be 0, it is twice the chance that calls divided at random are divided
    like this; None if both sides are equal, or one has a single call.
    """
    calls = [len(set(calls)) for _, calls in sides]
    if min(calls) < 2:
        return None
    (one, error, freedom), (other, error_of_other, freedom_of_other) = (mean_by_call(*side) for side in sides)
    squared = error**2 + error_of_other**2
    if squared > _ROUNDING**2:
        together = squared**2 / (error**4 / freedom + error_of_other**4 / freedom_of_other)
        return float(2 * stdtr(together, -abs(one - other) / sqrt(squared)))
    return 2 / comb(sum(calls), calls[0]) if abs(one - other) > _ROUNDING else None


def _corrected(rows: Sequence[DeclaredResult], family: Family, alpha: float) -> list[DeclaredResult]:
    """Apply a family's correction, and set which rows differ by it."""
    corrected = of_known(lambda given: adjusted(given, family.correction), [row.p for row in rows])
    return [
        replace(row, adjusted=p, differs=p is not None and p <= alpha) for row, p in zip(rows, corrected, strict=True)
    ]
