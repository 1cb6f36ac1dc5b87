"""Components of variance of marks, by the analysis of variance, and the standard errors that other designs would have.

In a dimension every subject answers every test and every judge reads every answer: a crossed design with tests nested
in the generation calls that made them. Each component is estimated without bias by setting mean squares equal to their
expectations (Cornfield and Tukey; Brennan, Generalizability Theory, 2001), that of calls by the one of an unbalanced
one-way layout (Searle, Casella and McCulloch, Variance Components, 1992, 3.6). An estimate may fall below 0 by chance,
and then counts as 0. What a subject's samples of one test differ by is in `subject x test`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from math import nan, sqrt

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import numbered

_Array = NDArray[np.float64]
_DEALS, _SAME = 2000, 1e-9


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of marks on the scale 0..1; nan where the design cannot show one.

    Between subjects, generation calls, tests of a call, judges; of their interactions; and between replicates, readings
    of one answer by one judge. With a single judge what judges add is in the components of subjects and tests; without
    replicates what readings differ by is in `subject_test_judge`, or with a single judge in `subject_test`. Where each
    call made one test, or one call all, tests have what calls add.
    """

    subject: float
    call: float
    test: float
    judge: float
    subject_call: float
    subject_test: float
    subject_judge: float
    test_judge: float
    subject_test_judge: float
    replicate: float


@dataclass(frozen=True, slots=True)
class Design:
    """What a dimension's marks are made of: tests, judges, and readings behind each judge's mark of a test.

    `calls` is how many generation calls of equal size would tell as much: tests squared over the sum of the squares of
    the calls' sizes.
    """

    calls: float
    tests: int
    judges: int
    readings: int


@dataclass(frozen=True, slots=True)
class Errors:
    """Standard errors of a subject's mean and of the difference of two subjects' means.

    The first two are for these very judges; `with_judges` is that of a difference if other judges had been asked.
    """

    mean: float
    difference: float
    with_judges: float


def effective_calls(calls: Sequence[Hashable]) -> float:
    """How many calls of equal size would tell as much as these."""
    sizes = np.bincount(numbered(calls)).astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def components(marks: _Array, calls: Sequence[Hashable], readings: int, replicate: float) -> Components:
    """The components of complete marks, subjects x tests x judges: at least two subjects and two tests.

    A mark is the mean of `readings`, whose variance is `replicate`; nan where it is not known.
    """
    subjects, tests, judges = marks.shape
    whole, noise = marks.mean(), 0.0 if np.isnan(replicate) else replicate / readings
    by_subject, by_test, by_judge = marks.mean((1, 2)), marks.mean((0, 2)), marks.mean((0, 1))
    of_st = marks.mean(2) - by_subject[:, None] - by_test[None] + whole
    subject_call, st = _nested(of_st, calls, (subjects - 1) / subjects)
    call, in_call = _nested(by_test[None], calls, 1.0)
    judge = sj = tj = stj = nan
    if judges > 1:
        of_sj = marks.mean(1) - by_subject[:, None] - by_judge[None] + whole
        of_tj = marks.mean(0) - by_test[:, None] - by_judge[None] + whole
        rest = marks - marks.mean(2)[:, :, None] - of_sj[:, None] - of_tj[None] - (by_judge - whole)
        stj = float((rest**2).sum()) / ((subjects - 1) * (tests - 1) * (judges - 1))
        sj = float((of_sj**2).sum()) / ((subjects - 1) * (judges - 1)) - stj / tests
        tj = float((of_tj**2).sum()) / ((tests - 1) * (judges - 1)) - stj / subjects
        judge = float(by_judge.var(ddof=1)) - sj / subjects - tj / tests - stj / (subjects * tests)
    shared = _or_nothing(sj) / judges, _or_nothing(tj) / judges
    own = float(by_subject.var(ddof=1)) - _or_nothing(subject_call) / effective_calls(calls) - st / tests
    return Components(
        subject=own - shared[0],
        call=call - subject_call / subjects,
        test=in_call - st / subjects - shared[1],
        judge=judge,
        subject_call=subject_call,
        subject_test=st - (noise if judges == 1 else stj / judges),
        subject_judge=sj,
        test_judge=tj,
        subject_test_judge=stj - noise,
        replicate=replicate,
    )


def errors(found: Components, asked: Design, design: Design) -> Errors:
    """What the standard errors would be of another design than the one `asked`; nan where that cannot be known."""
    of = {field.name: max(0.0, _or_nothing(getattr(found, field.name))) for field in fields(found)}
    more_judges, more_readings = design.judges != asked.judges, design.readings != asked.readings
    if (more_judges and asked.judges == 1) or (more_readings and np.isnan(found.replicate)):
        return Errors(nan, nan, nan)
    by_judge = of["subject_test_judge"] + of["replicate"] / design.readings
    own = of["subject_call"] / design.calls + (of["subject_test"] + by_judge / design.judges) / design.tests
    of_tests = of["call"] / design.calls + (of["test"] + of["test_judge"] / design.judges) / design.tests
    with_judges = nan if asked.judges == 1 else sqrt(2 * (own + of["subject_judge"] / design.judges))
    return Errors(sqrt(own + of_tests), sqrt(2 * own), with_judges)


def between_calls(marks: _Array, calls: Sequence[Hashable]) -> float:
    """The SD between generation calls of a subject's marks of tests, in the mean of its square over subjects.

    Marks are subjects x tests, nan where there is none; 0 where calls cannot be told from tests.
    """
    known = [[at for at, mark in enumerate(own) if not np.isnan(mark)] for own in marks]
    asked = [(own[at], [calls[test] for test in at]) for own, at in zip(marks, known, strict=True) if len(at) > 1]
    variances = [_nested(values[None], named, 1.0)[0] for values, named in asked]
    found = [each for each in variances if not np.isnan(each)]
    return sqrt(max(0.0, float(np.mean(found)))) if found else 0.0


def chance_of_calls(marks: _Array, calls: Sequence[Hashable]) -> float:
    """How often calls would be as unlike if the same tests were dealt to them at random: of 2,000 deals, itself one."""
    call_of, random = numbered(calls), np.random.default_rng(0)
    centred = np.nan_to_num(marks - np.nanmean(marks, axis=1, keepdims=True))

    def unlike(dealt: NDArray[np.int64]) -> float:
        return sum(float((np.bincount(dealt, own) ** 2).sum()) for own in centred)

    least = unlike(call_of) * (1 - _SAME)
    return (1 + sum(unlike(random.permutation(call_of)) >= least for _ in range(_DEALS - 1))) / _DEALS


def _nested(series: _Array, calls: Sequence[Hashable], kept: float) -> tuple[float, float]:
    """The variance between calls and within them of several series over tests, of which centring has `kept` a part.

    Where calls cannot be told from tests the first is nan, and the second that of the series.
    """
    groups = numbered(calls)
    counts = np.bincount(groups).astype(np.float64)
    centred = series - series.mean(1, keepdims=True)
    if len(counts) in (1, len(groups)):
        return nan, float((centred**2).sum()) / (len(groups) - 1) / len(series) / kept
    means = np.stack([np.bincount(groups, weights=one) for one in centred]) / counts
    between = float((counts * means**2).sum()) / (len(counts) - 1)
    within = float(((centred - means[:, groups]) ** 2).sum()) / (len(groups) - len(counts))
    size = (len(groups) - float((counts**2).sum()) / len(groups)) / (len(counts) - 1)
    return (between - within) / size / len(series) / kept, within / len(series) / kept


def _or_nothing(value: float) -> float:
    return 0.0 if np.isnan(value) else value
