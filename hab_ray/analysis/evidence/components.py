"""Variance components of marks by analysis of variance, and the standard errors of other designs.

In a dimension every subject answers every test and every judge reads every answer: a crossed design with tests nested
in generation calls. Equating mean squares with their expectations gives unbiased estimates (Cornfield and Tukey;
Brennan, Generalizability Theory, 2001); that of calls is the one of an unbalanced one-way layout (Searle, Casella and
McCulloch, Variance Components, 1992, 3.6). In `errors` an estimate below 0 counts as 0. The variance between a
subject's samples of one test is part of `subject x test`.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from math import nan, sqrt

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import Array, numbered

_PERMUTATIONS, _TOLERANCE = 2000, 1e-9


@dataclass(frozen=True, slots=True)
class Components:
    """Variance components of marks on the scale 0..1; nan if the design does not identify one.

    Main effects are subjects, generation calls, tests of a call and judges; `replicate` is between readings of one
    answer by one judge. With a single judge, the judge's components are part of those of subjects and tests. Without
    replicates, the variance between readings is part of `subject_test_judge`, or of `subject_test` with a single judge.
    If every call made one test, the variance between calls is part of that between tests; if one call made all, that of
    `call` is unknown, and that of `subject_call` is part of `subject`.
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
    """The design of a dimension: number of tests, of judges, and of readings behind each judge's mark of a test.

    `calls` is the effective number of generation calls: tests squared over the sum of the squared sizes of calls.
    """

    calls: float
    tests: int
    judges: int
    readings: int


@dataclass(frozen=True, slots=True)
class Errors:
    """Standard errors of a subject's mean and of the difference of two subjects' means, for the same judges.

    `with_judges` is the standard error of a difference that generalises to other judges.
    """

    mean: float
    difference: float
    with_judges: float


def effective_calls(calls: Sequence[Hashable]) -> float:
    """Return the number of equally large calls with as much information."""
    sizes = np.bincount(numbered(calls)).astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def components(marks: Array, calls: Sequence[Hashable], readings: int, replicate: float) -> Components:
    """Return the components of complete marks (subjects x tests x judges) of at least two subjects and two tests.

    A mark is the mean of `readings`, each with the variance `replicate`, which is nan if unknown.
    """
    subjects, tests, judges = marks.shape
    mean, noise = marks.mean(), 0.0 if np.isnan(replicate) else replicate / readings
    by_subject, by_test, by_judge = marks.mean((1, 2)), marks.mean((0, 2)), marks.mean((0, 1))
    subject_call, st = _nested(_interaction(marks.mean(2)), calls, (subjects - 1) / subjects)
    call, in_call = _nested(by_test[None], calls, 1.0)
    judge = sj = tj = stj = nan
    if judges > 1:
        of_sj, of_tj = _interaction(marks.mean(1)), _interaction(marks.mean(0))
        rest = marks - marks.mean(2)[:, :, None] - of_sj[:, None] - of_tj[None] - (by_judge - mean)
        stj = float((rest**2).sum()) / ((subjects - 1) * (tests - 1) * (judges - 1))
        sj = _mean_square(of_sj) - stj / tests
        tj = _mean_square(of_tj) - stj / subjects
        judge = float(by_judge.var(ddof=1)) - sj / subjects - tj / tests - stj / (subjects * tests)
    shared = _or_zero(sj) / judges, _or_zero(tj) / judges
    own = float(by_subject.var(ddof=1)) - _or_zero(subject_call) / effective_calls(calls) - st / tests
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


def subject_judge_overall(means: Array, by_dimension: Sequence[float]) -> float:
    """Return the variance `subject_judge` of the unweighted mean of dimensions; nan with a single judge.

    `means` are dimensions x subjects x judges, `by_dimension` holds the variance in each. The same judges read every
    dimension, so what they share does not average out. The mean squares' noise does: tests of dimensions are different.
    """
    if means.shape[2] == 1:
        return nan
    noise = sum(_mean_square(_interaction(own)) - sj for own, sj in zip(means, by_dimension, strict=True))
    return max(0.0, _mean_square(_interaction(means.mean(0))) - noise / len(means) ** 2)


def errors(found: Components, asked: Design, design: Design) -> Errors:
    """Return the standard errors of another `design` than the one `asked`; nan if they cannot be known.

    They are not if calls made several tests each, but the complete ones, too few or all of one call, do not tell calls
    from tests. Estimates of calls and of tests are added up before any below 0 counts as 0: with few tests per call,
    one is as far below its value as the other is above.
    """
    estimated = {field.name: _or_zero(getattr(found, field.name)) for field in fields(found)}
    of = {name: max(0.0, value) for name, value in estimated.items()}
    other_judges, other_readings = design.judges != asked.judges, design.readings != asked.readings
    mixed_calls = np.isnan(found.subject_call) and asked.calls < asked.tests
    if mixed_calls or (other_judges and asked.judges == 1) or (other_readings and np.isnan(found.replicate)):
        return Errors(nan, nan, nan)
    by_judge = of["subject_test_judge"] + of["replicate"] / design.readings
    by_test, of_all = (
        max(0.0, estimated[call] / design.calls + estimated[test] / design.tests)
        for call, test in (("subject_call", "subject_test"), ("call", "test"))
    )
    own = by_test + by_judge / design.judges / design.tests
    of_tests = of_all + of["test_judge"] / design.judges / design.tests
    with_judges = nan if asked.judges == 1 else sqrt(2 * (own + of["subject_judge"] / design.judges))
    return Errors(sqrt(own + of_tests), sqrt(2 * own), with_judges)


def between_calls(marks: Array, calls: Sequence[Hashable]) -> float:
    """Return the SD between generation calls of a subject's marks: the root mean square over subjects.

    Marks are subjects x tests, nan if missing. The SD is 0 if calls are not distinguishable from tests.
    """
    known = [np.flatnonzero(~np.isnan(own)).tolist() for own in marks]
    pairs = [(own[at], [calls[test] for test in at]) for own, at in zip(marks, known, strict=True) if len(at) > 1]
    variances = [_nested(values[None], of_values, 1.0)[0] for values, of_values in pairs]
    identified = [each for each in variances if not np.isnan(each)]
    return sqrt(max(0.0, float(np.mean(identified)))) if identified else 0.0


def chance_of_calls(marks: Array, calls: Sequence[Hashable]) -> float:
    """Return the p-value of a permutation test of equal calls, from 2,000 random assignments of tests to calls."""
    call_of, random = numbered(calls), np.random.default_rng(0)
    centred = np.nan_to_num(marks - np.nanmean(marks, axis=1, keepdims=True))

    def spread(assigned: NDArray[np.int64]) -> float:
        return sum(float((np.bincount(assigned, own) ** 2).sum()) for own in centred)

    observed = spread(call_of) * (1 - _TOLERANCE)
    return (1 + sum(spread(random.permutation(call_of)) >= observed for _ in range(_PERMUTATIONS - 1))) / _PERMUTATIONS


def _interaction(table: Array) -> Array:
    """Return what is left of a table without the effects of its rows and columns."""
    rest: Array = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    return rest


def _mean_square(interaction: Array) -> float:
    rows, columns = interaction.shape
    return float((interaction**2).sum() / ((rows - 1) * (columns - 1)))


def _nested(series: Array, calls: Sequence[Hashable], kept: float) -> tuple[float, float]:
    """Return the variances between and within calls of series x tests; centring has left the share `kept` of them.

    If calls are not distinguishable from tests, the first is nan and the second is the variance of the series.
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


def _or_zero(value: float) -> float:
    return 0.0 if np.isnan(value) else value
