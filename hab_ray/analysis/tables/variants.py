"""The effect of variants: each compared with its base over the answers that both have marks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from hab_ray.analysis.intervals import ends
from hab_ray.analysis.marks import PANEL, ItemScores, RowIndex, marks_of
from hab_ray.analysis.pairs import ahead, over_dimensions
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary, answers_of, verdicts_on
from hab_ray.config.sections import VariedJudge, VariedSubject


@dataclass(frozen=True, slots=True)
class Change:
    """The means (0..1) of a subject or judge and its variant over the `n` of `asked` answers that both have.

    Subjects are compared by the panel's marks of answers to the same tests, judges by their marks of the same answers
    of all subjects. Means are over tests, of a test's answers. `difference` is the variant's mean less the base's with
    a 95 % interval, and `p` that of the sign-flip test by generation call, not corrected for the number of variants.
    All are None if `n` is 0, the ends also for a single test.
    """

    variant: str
    base: str
    dimension: str
    n: int
    asked: int
    is_judge: bool
    base_mean: float | None
    variant_mean: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None


@analysis(Change, order=37, heading="Variants")
def variants(summary: Summary) -> Sequence[Change]:
    """Compare the variants of a sweep with their bases: subjects, then judges, by dimension."""
    sweep = summary.run.record.sweep
    own = summary.cells
    subjects = [
        _change(subject.name, subject.base, dimension, [(own[subject.base, dimension, PANEL], found)])
        for subject in sweep.varied_subjects
        for dimension, found in _marks_of_subject(summary, subject)
    ]
    judges = [
        _change(judge.name, judge.base, dimension, [(own[m.subject, dimension, judge.base], m) for m in found])
        for judge in sweep.varied_judges
        for dimension, found in _marks_of_judge(summary, judge)
    ]
    return [*subjects, *(replace(change, is_judge=True) for change in judges)]


def _marks_of_subject(summary: Summary, subject: VariedSubject) -> Iterator[tuple[str, ItemScores]]:
    """Yield the panel's marks of a varied subject's answers, by dimension."""
    for dimension in summary.settings.tests:
        part, tests = (subject.name, dimension), {dimension: summary.settings.tests[dimension]}
        settings = replace(summary.settings, subjects=(subject.name,), tests=tests)
        rows = RowIndex.of(answers_of(summary.run, *part), verdicts_on(summary.run, *part))
        yield dimension, next(found for found in marks_of(rows, settings) if found.judge == PANEL)


def _marks_of_judge(summary: Summary, judge: VariedJudge) -> Iterator[tuple[str, list[ItemScores]]]:
    """Yield a varied judge's marks of each subject's answers, by dimension, where it has verdicts."""
    run = summary.run
    for dimension in summary.settings.tests:
        found, tests = [], {dimension: summary.settings.tests[dimension]}
        for subject in summary.settings.subjects:
            if verdicts := verdicts_on(run, subject, dimension, judge.name):
                settings = replace(summary.settings, subjects=(subject,), panel=(judge.name,), tests=tests)
                rows = RowIndex.of(answers_of(run, subject, dimension), verdicts)
                found.append(marks_of(rows, settings)[0])
        if found:
            yield dimension, found


def _change(variant: str, base: str, dimension: str, pairs: Sequence[tuple[ItemScores, ItemScores]]) -> Change:
    marks = np.concatenate([[one.by_test, other.by_test] for one, other in pairs], axis=2)
    both, calls = ~np.isnan(marks).any(axis=0), pairs[0][0].calls
    own, varied = (ItemScores("", dimension, "", np.where(both, side, np.nan), 0, calls) for side in marks)
    _, difference, p = over_dimensions([ahead(varied, own)])
    base_mean, variant_mean = (fmean(known) if (known := side.known()[0]) else None for side in (own, varied))
    sizes, means = (int(both.sum()), both.size), (base_mean, variant_mean)
    return Change(variant, base, dimension, *sizes, False, *means, *ends(difference), p)
