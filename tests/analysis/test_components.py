"""Components of variance against planted ones, mean squares by projections, and a design by hand."""

from dataclasses import asdict, astuple
from math import isnan, nan, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from hab_ray.analysis.evidence.components import (
    Components,
    Design,
    components,
    effective_calls,
    errors,
    subject_judge_overall,
)

Array = NDArray[np.float64]
PLANTED = Components(
    subject=0.04,
    call=0.02,
    test=0.03,
    judge=0.01,
    subject_call=0.015,
    subject_test=0.025,
    subject_judge=0.008,
    test_judge=0.012,
    subject_test_judge=0.02,
    replicate=0.03,
)
READINGS = 2


def drawn(random: np.random.Generator, subjects: int, calls: list[int], judges: int) -> Array:
    """Marks with the planted components; `calls` are the call of each test."""
    tests, sd = len(calls), {name: sqrt(value) for name, value in asdict(PLANTED).items()}
    of_call = np.array(calls)
    s, t, j = subjects, tests, judges

    def effect(name: str, *shape: int) -> Array:
        return random.normal(0, sd[name], shape)

    marks: Array = (
        effect("subject", s, 1, 1)
        + effect("call", 1, max(calls) + 1, 1)[:, of_call]
        + effect("test", 1, t, 1)
        + effect("judge", 1, 1, j)
        + effect("subject_call", s, max(calls) + 1, 1)[:, of_call]
        + effect("subject_test", s, t, 1)
        + effect("subject_judge", s, 1, j)
        + effect("test_judge", 1, t, j)
        + effect("subject_test_judge", s, t, j)
        + effect("replicate", s, t, j, READINGS).mean(3)
    )
    return marks


def test_planted_components_are_recovered_on_average() -> None:
    """Each estimate is unbiased: the mean over sweeps lies within four of its standard errors, calls of any size."""
    random, calls = np.random.default_rng(5), [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 4, 5, 6, 6, 6]
    found = [
        list(asdict(components(drawn(random, 6, calls, 3), calls, READINGS, PLANTED.replicate)).values())
        for _ in range(4000)
    ]
    means, reach = np.mean(found, axis=0), 4 * np.std(found, axis=0) / sqrt(len(found)) + 1e-12
    planted = np.array(list(asdict(PLANTED).values()))
    assert np.all(np.abs(means - planted) <= reach), dict(zip(asdict(PLANTED), means - planted, strict=True))
    assert np.all(reach < 0.002)


def test_mean_squares_are_those_of_projections() -> None:
    """Without shared calls: each mean square is a quadratic form of centring and averaging matrices."""
    marks = np.random.default_rng(1).random((4, 5, 3))
    sizes = marks.shape

    def square(*effects: int) -> float:
        form: Array = np.ones((1, 1))
        for axis, size in enumerate(sizes):
            average = np.full((size, size), 1 / size)
            one = np.eye(size) - average if axis in effects else average
            form = np.asarray(np.kron(form, one), dtype=np.float64)
        freedom = np.prod([sizes[axis] - 1 for axis in effects])
        return float(marks.ravel() @ form @ marks.ravel() / freedom)

    found = components(marks, range(5), 1, nan)
    s, t, j, st, sj, tj, stj = (square(*each) for each in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)))
    assert found.subject == pytest.approx((s - st - sj + stj) / 15, abs=1e-12)
    assert found.test == pytest.approx((t - st - tj + stj) / 12, abs=1e-12)
    assert found.judge == pytest.approx((j - sj - tj + stj) / 20, abs=1e-12)
    assert found.subject_test == pytest.approx((st - stj) / 3, abs=1e-12)
    assert found.subject_judge == pytest.approx((sj - stj) / 5, abs=1e-12)
    assert found.test_judge == pytest.approx((tj - stj) / 4, abs=1e-12)
    assert found.subject_test_judge == pytest.approx(stj, abs=1e-12)
    assert isnan(found.call) and isnan(found.subject_call) and isnan(found.replicate)


def test_one_judge_leaves_its_components_unknown() -> None:
    marks = np.random.default_rng(2).random((4, 6, 1))
    found = components(marks, range(6), 1, nan)
    table = marks[..., 0]
    rest = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    assert found.subject_test == pytest.approx((rest**2).sum() / 15)
    assert found.subject == pytest.approx(table.mean(1).var(ddof=1) - found.subject_test / 6)
    assert isnan(found.judge) and isnan(found.subject_test_judge)
    asked = Design(6, 6, 1, 1)
    assert errors(found, asked, asked).difference == pytest.approx(sqrt(2 * found.subject_test / 6))
    assert isnan(errors(found, asked, Design(6, 6, 2, 1)).difference)
    assert isnan(errors(found, asked, Design(6, 6, 1, 2)).difference)


def test_errors_are_those_of_the_design() -> None:
    p, asked, design = PLANTED, Design(10, 30, 2, 1), Design(20, 60, 3, 2)
    found = errors(p, asked, design)
    own = p.subject_call / 20 + p.subject_test / 60 + (p.subject_test_judge + p.replicate / 2) / 180
    assert found.difference == pytest.approx(sqrt(2 * own))
    assert found.with_judges == pytest.approx(sqrt(2 * (own + p.subject_judge / 3)))
    assert found.mean == pytest.approx(sqrt(own + p.call / 20 + p.test / 60 + p.test_judge / 180))


@pytest.mark.parametrize("complete", [[0, 3, 6, 9], [0, 1, 2]])
def test_complete_tests_each_of_another_call_or_all_of_one_tell_no_error(complete: list[int]) -> None:
    """Of four calls with three tests each, the complete ones cannot tell how much calls vary."""
    calls = [at // 3 for at in range(12)]
    marks, own = drawn(np.random.default_rng(3), 5, calls, 2), [calls[at] for at in complete]
    asked = Design(effective_calls(calls), len(calls), 2, READINGS)
    found = components(marks[:, complete], own, READINGS, nan)
    assert all(isnan(each) for each in astuple(errors(found, asked, asked)))
    alone = Design(effective_calls(own), len(own), 2, READINGS)
    assert isnan(errors(found, alone, alone).difference) == (len(set(own)) == 1)


def test_errors_are_not_too_large_where_few_calls_made_two_tests() -> None:
    """Calls do not differ, which one call of two tests hardly shows: half of the estimates are below 0."""
    random, calls = np.random.default_rng(4), [0, *range(13)]
    asked = Design(effective_calls(calls), 14, 1, 1)
    marks = random.normal(0, 0.3, (1500, 4, 14, 1)) + random.normal(0, 0.2, (1500, 1, 14, 1))
    found = [errors(components(each, calls, 1, nan), asked, asked) for each in marks]
    assert np.mean([each.difference**2 for each in found]) == pytest.approx(2 * 0.3**2 / 14, rel=0.05)
    assert np.mean([each.mean**2 for each in found]) == pytest.approx((0.3**2 + 0.2**2) / 14, rel=0.05)


def test_the_error_of_a_difference_is_the_one_seen_between_subjects() -> None:
    """Means of drawn subjects differ as `errors` says, whose own component is taken away."""
    random, calls = np.random.default_rng(9), [at // 3 for at in range(12)]
    means = np.stack([drawn(random, 2, calls, 2).mean((1, 2)) for _ in range(6000)])
    design = Design(effective_calls(calls), 12, 2, READINGS)
    seen = float((means[:, 0] - means[:, 1]).var())
    expected = errors(PLANTED, design, design).with_judges ** 2 + 2 * PLANTED.subject
    assert design.calls == 4 and seen == pytest.approx(expected, rel=0.06)


def test_what_judges_share_over_dimensions_is_recovered_on_average() -> None:
    """A judge likes a subject in all dimensions (SD .05), and more or less in each of five (the planted variance)."""
    random, found, sd = np.random.default_rng(8), [], sqrt(PLANTED.subject_judge)
    for _ in range(1500):
        shared, means, by_dimension = random.normal(0, 0.05, (6, 3)), [], []
        for tests in (4, 6, 8, 10, 12):
            marks = drawn(random, 6, list(range(tests)), 3) + shared[:, None]
            means.append(marks.mean(1))
            by_dimension.append(components(marks, range(tests), READINGS, PLANTED.replicate).subject_judge)
        found.append(subject_judge_overall(np.stack(means), by_dimension))
    assert abs(np.mean(found) - (0.05**2 + sd**2 / 5)) < 4 * np.std(found) / sqrt(len(found))


def test_a_single_judge_shows_nothing_that_judges_share() -> None:
    assert isnan(subject_judge_overall(np.zeros((2, 3, 1)), [nan, nan]))
