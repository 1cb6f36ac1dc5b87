"""Item-rest correlations and split halves against direct computations."""

from itertools import combinations
from math import isnan, sqrt

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
    assert split_half(marks) == pytest.approx(np.mean(direct), abs=1e-12)


def test_drawn_halves_find_the_planted_reliability() -> None:
    """Parallel tests: the reliability is variance of subjects over itself and that of a mean's error."""
    random = np.random.default_rng(8)
    marks = random.normal(0, 0.2, (3000, 1)) + random.normal(0, 0.6, (3000, 25))
    assert split_half(marks) == pytest.approx(0.04 / (0.04 + 0.36 / 25), abs=0.02)


@pytest.mark.parametrize(("variance", "above"), [(0.0, 0), (0.09, 1)])
def test_missing_marks_neither_make_nor_hide_a_reliability(variance: float, above: int) -> None:
    """20 subjects, true reliability 0 or .9, and 170 tests of which some 28 have every mark: only .9 looks like .7."""
    random, found = np.random.default_rng(9), []
    for _ in range(25):
        marks = random.normal(0, sqrt(variance), (20, 1)) + random.normal(0, sqrt(1.7), (20, 170))
        marks[random.random(marks.shape) < 0.086] = np.nan
        found.append(split_half(marks))
    assert np.mean(np.array(found) > 0.7) == pytest.approx(above, abs=0.04)


def test_a_split_counts_in_which_every_subject_has_a_mark_in_both_halves() -> None:
    marks = np.random.default_rng(2).random((5, 4))
    marks[0, :2] = np.nan
    direct = []
    for one, other in (((0, 2), (1, 3)), ((0, 3), (1, 2))):
        r = np.corrcoef(np.nanmean(marks[:, one], axis=1), np.nanmean(marks[:, other], axis=1))[0, 1]
        direct.append(max(-1.0, 2 * r / (1 + r)))
    assert split_half(marks) == pytest.approx(np.mean(direct), abs=1e-12)


def test_subjects_that_halves_order_oppositely_have_the_least_reliability() -> None:
    assert split_half(np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.1]])) == -1.0


def test_what_cannot_be_told_is_not() -> None:
    assert isnan(split_half(np.ones((4, 6)))) and isnan(split_half(np.random.default_rng(0).random((4, 1))))
    assert np.isnan(item_rest(np.ones((4, 6)))).all()
