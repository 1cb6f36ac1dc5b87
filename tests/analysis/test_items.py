"""Item-rest correlations and split halves against direct computations."""

from __future__ import annotations

from itertools import combinations
from math import isnan

import numpy as np
import pytest

from hab_ray.analysis.evidence.items import item_rest, split_half


def test_item_rest_is_the_correlation_with_the_other_tests() -> None:
    marks = np.random.default_rng(0).random((7, 5))
    marks[:, 3] = 0.5
    found = item_rest(marks)
    for test in (0, 1, 2, 4):
        rest = np.delete(marks, test, axis=1).mean(1)
        assert found[test] == pytest.approx(np.corrcoef(marks[:, test], rest)[0, 1], abs=1e-12)
    assert isnan(found[3])


def test_a_test_that_goes_neither_way_has_no_sign() -> None:
    marks = np.array([[0.1, 0.3], [0.6, 0.3], [0.1, 0.9], [0.6, 0.9]])
    assert item_rest(marks).tolist() == [0.0, 0.0] and not np.any(item_rest(marks) < 0)


def test_split_half_is_the_mean_over_all_halves() -> None:
    random = np.random.default_rng(4)
    marks = random.random((9, 1)) + 0.4 * random.random((9, 6))
    direct = []
    for one in combinations(range(6), 3):
        other = [test for test in range(6) if test not in one]
        r = np.corrcoef(marks[:, list(one)].mean(1), marks[:, other].mean(1))[0, 1]
        direct.append(2 * r / (1 + r))
    assert split_half(marks, 6) == pytest.approx(np.mean(direct), abs=1e-12)


def test_drawn_halves_find_the_planted_reliability() -> None:
    """Parallel tests: the reliability is variance of subjects over itself and that of a mean's error."""
    random = np.random.default_rng(8)
    marks = random.normal(0, 0.2, (3000, 1)) + random.normal(0, 0.6, (3000, 25))
    assert split_half(marks, 25) == pytest.approx(0.04 / (0.04 + 0.36 / 25), abs=0.02)


@pytest.mark.parametrize("complete", [40, 10, 7, 2])
def test_the_reliability_is_that_of_all_tests_however_few_have_every_mark(complete: int) -> None:
    random = np.random.default_rng(9)
    marks = random.normal(0, 0.2, (20_000, 1)) + random.normal(0, 0.6, (20_000, complete))
    assert split_half(marks, 40) == pytest.approx(0.04 / (0.04 + 0.36 / 40), abs=0.02)


def test_subjects_that_halves_order_oppositely_have_the_least_reliability() -> None:
    assert split_half(np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.1]]), 60) == -1.0


def test_what_cannot_be_told_is_not() -> None:
    assert isnan(split_half(np.ones((4, 6)), 6)) and isnan(split_half(np.random.default_rng(0).random((4, 1)), 9))
    assert np.isnan(item_rest(np.ones((4, 6)))).all()
