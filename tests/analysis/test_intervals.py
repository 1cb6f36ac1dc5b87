"""Intervals against closed forms and scipy, and that they cover where the normal ones do not."""

from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import Design, betting, measure, needed_for_equal, widening
from hab_ray.analysis.intervals import combined, gaffke, interval, student


@pytest.mark.parametrize(("n", "ones"), [(2, 1), (12, 0), (12, 12), (30, 29), (150, 68), (500, 499)])
def test_of_zeros_and_ones_gaffkes_is_clopper_and_pearsons(n: int, ones: int) -> None:
    exact = stats.binomtest(ones, n).proportion_ci(0.95, "exact")
    assert gaffke([1.0] * ones + [0.0] * (n - ones)) == pytest.approx((exact.low, exact.high), abs=1e-9)


def divided(points: list[Fraction], end: Fraction) -> Fraction:
    """P(the mean of points under uniform weights > end): a divided difference of a truncated power, ties and all."""
    points, n = sorted(points), len(points) - 1

    def taylor(x: Fraction, k: int) -> Fraction:
        return comb(n, k) * max(x - end, Fraction(0)) ** (n - k) if x > end else Fraction(0)

    row = [taylor(x, 0) for x in points]
    for k in range(1, n + 1):
        row = [
            taylor(points[i], k) if points[i] == points[i + k] else (row[i + 1] - row[i]) / (points[i + k] - points[i])
            for i in range(n + 1 - k)
        ]
    return row[0]


@pytest.mark.parametrize("tenths", [(3, 10, 7, 7, 0, 6), (9, 10, 10), (2, 5), (1, 1, 1, 4), tuple(range(11)) * 2])
def test_gaffkes_bound_is_the_quantile_of_a_divided_difference(tenths: tuple[int, ...]) -> None:
    marks = [Fraction(tenth, 10) for tenth in tenths]
    low, high = gaffke([tenth / 10 for tenth in tenths])
    assert float(divided([*marks, Fraction(1)], Fraction(high))) == pytest.approx(0.025, abs=1e-9)
    assert float(divided([*marks, Fraction(0)], Fraction(low))) == pytest.approx(0.975, abs=1e-9)


def test_students_interval_is_scipys_where_each_test_has_a_call_of_its_own() -> None:
    values = np.random.default_rng(4).random(23)
    assert student(values.tolist(), range(23)) == pytest.approx(
        stats.t.interval(0.95, 22, values.mean(), stats.sem(values)), abs=1e-12
    )
    assert student([0.1, 0.4], ["one", "one"]) == (-np.inf, np.inf)


def test_students_interval_of_uneven_calls_is_bias_reduced() -> None:
    values, calls = np.random.default_rng(5).random(12), np.array([0] * 6 + [1] * 3 + [2, 3, 4])
    ones, residuals = np.ones(12), values - values.mean()
    total = 0.0
    for call in range(5):
        at = np.flatnonzero(calls == call)
        hat = np.full((len(at), len(at)), 1 / 12)
        eigenvalues, vectors = np.linalg.eigh(np.eye(len(at)) - hat)
        adjusted = vectors @ np.diag(eigenvalues**-0.5) @ vectors.T @ residuals[at]
        total += float(ones[at] @ adjusted) ** 2
    freedom = 12**2 / (36 + 9 + 3) - 1
    reach = float(stats.t.ppf(0.975, freedom)) * np.sqrt(total) / 12
    assert student(values.tolist(), calls.tolist()) == pytest.approx(
        (values.mean() - reach, values.mean() + reach), abs=1e-12
    )


def test_a_call_with_most_of_the_tests_leaves_their_mean_uncertain() -> None:
    low, high = student([0.3] * 60 + [0.85] * 12, [0] * 60 + [*range(1, 13)])
    assert low < 0 and high > 1


def test_a_scale_may_be_any() -> None:
    values = [0.1, 0.9, 0.4, 0.4]
    low, high = interval([2 * each - 1 for each in values], range(4), -1.0, 1.0).low, gaffke(values)[1]
    assert low == pytest.approx(2 * (interval(values, range(4)).low or 0) - 1, abs=1e-9)
    assert gaffke([2 * each - 1 for each in values], -1.0)[1] == pytest.approx(2 * high - 1, abs=1e-9)


def test_one_value_has_no_interval_and_an_unknown_mean_leaves_none() -> None:
    assert (interval([0.4], [0]).low, interval([0.4], [0]).high) == (None, None)
    assert combined([interval([0.4], [0]), None]) is None and combined([]) is None
    both = combined([interval([0.4], [0]), interval([0.1, 0.2], [0, 1])])
    assert both is not None and both.low is None and both.mean == pytest.approx(0.275)


def test_betting_intervals_hold_the_mean_and_are_wider_than_gaffkes() -> None:
    values = ([0.0, 1.0, 0.6, 0.3] * 40)[:150]
    low, high = betting(values)
    exact = gaffke(values)
    assert low < exact[0] < float(np.mean(values)) < exact[1] < high
    assert betting([1.0] * 12)[1] == 1.0 and betting([0.5])[0] == 0.0


@pytest.mark.parametrize(("mean", "n"), [(0.02, 12), (0.98, 30)])
def test_means_are_covered_at_the_edges(mean: float, n: int) -> None:
    """Student's t covers less than .85 there. The whole table is made by `python -m benchmarks.coverage`."""
    found = measure(Design(mean, n), repetitions=200, seed=7)
    assert found.covered >= 0.93 and found.by_betting >= 0.95 and found.by_t < 0.85


def test_clusters_are_covered_and_widths_are_as_said() -> None:
    assert measure(Design(0.45, 150, calls=20, spread=0.5), repetitions=80, seed=1).covered >= 0.92
    assert measure(Design(0.45, 150), repetitions=25, seed=2).width <= 1.10
    for n, most in ((30, 1.25), (150, 1.12)):
        assert measure(Design(0.45, n, paired=True), repetitions=25, seed=3).width <= most


def test_the_widths_and_numbers_of_tests_that_the_docs_name_are_those_of_the_intervals() -> None:
    page = (Path(__file__).parents[2] / "docs/measurement.md").read_text(encoding="utf-8")
    for sd in (0.05, 0.1, 0.2):
        widths = [f"{widening(tests, sd):.2f}" for tests in (30, 50, 150, 500)]
        needed = [str(needed_for_equal(sd, share)) for share in (0.0, 0.8)]
        assert " | ".join([f"| {sd}", *widths, *needed]) in page
    assert f"| 0.0 | - | - | - | - | {needed_for_equal(0.0, 0.0)} |" in page
