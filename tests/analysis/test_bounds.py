"""Bounds of means by hand."""

import pytest

from hab_ray.analysis.marks import OVERALL, PANEL, RowIndex, marks_of
from hab_ray.analysis.tables.bounds import Bounds, bounds_of
from hab_ray.rows import State
from tests.analysis.conftest import answer, settings, verdict


def panel_bounds(missing: int, tests: int) -> list[Bounds]:
    asked = settings(tests={"d1": tests, "d2": 1})
    rows = [answer(f"d1-{i}", state=State.FAILED if i < missing else State.OK) for i in range(tests)]
    read = [verdict(f"d1-{i}", 5) for i in range(missing, tests)]
    everything = marks_of(RowIndex.of([*rows, answer("d2-0")], [*read, verdict("d2-0", 9)]), asked)
    return [b for b in bounds_of(everything) if b.judge == PANEL]


def test_missing_rows_count_as_0_and_as_1() -> None:
    cell, overall = panel_bounds(missing=2, tests=10)
    assert (cell.dimension, cell.missing, cell.rows) == ("d1", 2, 10)
    assert (cell.worst, cell.best) == pytest.approx((0.4, 0.6))
    assert (overall.dimension, overall.missing, overall.rows) == (OVERALL, 2, 11)
    assert (overall.worst, overall.best) == pytest.approx(((0.4 + 0.9) / 2, (0.6 + 0.9) / 2))


def test_two_percent_are_tolerated_and_more_are_not() -> None:
    assert panel_bounds(missing=1, tests=50) == []
    assert [b.missing for b in panel_bounds(missing=1, tests=49)] == [1, 1]


def test_samples_are_filled_within_their_test() -> None:
    asked = settings(tests={"d1": 2}, samples=2)
    rows = [answer(f"d1-{i}", sample=k) for i in range(2) for k in range(2)]
    read = [verdict("d1-0", 8), verdict("d1-1", 6), verdict("d1-1", 6, sample=1)]
    cell = bounds_of(marks_of(RowIndex.of(rows, read), asked))[0]
    assert (cell.worst, cell.best) == pytest.approx(((0.4 + 0.6) / 2, (0.9 + 0.6) / 2))


def test_a_dimension_with_nothing_scored_may_be_anything() -> None:
    cell = bounds_of(marks_of(RowIndex.of([], []), settings(tests={"d1": 3})))[0]
    assert (cell.missing, cell.worst, cell.best) == (3, 0.0, 1.0)


def test_a_dimension_without_tests_has_no_bounds() -> None:
    assert bounds_of(marks_of(RowIndex.of([], []), settings(tests={"d1": 0}))) == []
