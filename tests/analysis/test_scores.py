"""Means and intervals against cells computed by hand and against scipy.stats."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from scipy import stats

from hab_ray.analysis.marks import OVERALL, PANEL, Answered, ItemScores, Judged, RowIndex, ScoreSettings, marks_of
from hab_ray.analysis.row_status import count_statuses, row_statuses
from hab_ray.analysis.scores import scores_of
from hab_ray.analysis.summary import marks_and_statuses
from hab_ray.analysis.tables.bounds import bounds_of
from hab_ray.errors import DamagedFile
from hab_ray.rehearse.figures import gaffke_bound
from hab_ray.rows import Score, State
from tests.analysis.conftest import answer, settings, verdict


def scores_from(rows: list[Answered], read: list[Judged], asked: ScoreSettings) -> list[Score]:
    return scores_of(marks_of(RowIndex.of(rows, read), asked))


def scored(dimension: str, *marks: int | None, judge: str = "j") -> list[Judged]:
    """A judge's marks of a dimension's tests, in their order."""
    return [verdict(f"{dimension}-{at}", mark, judge=judge) for at, mark in enumerate(marks)]


def answered(dimension: str, tests: int) -> list[Answered]:
    return [answer(f"{dimension}-{at}") for at in range(tests)]


def pick(scores: list[Score], dimension: str, judge: str = PANEL, subject: str = "s") -> Score:
    (found,) = [s for s in scores if (s.subject, s.dimension, s.judge) == (subject, dimension, judge)]
    return found


def test_one_judge_two_tests_by_hand() -> None:
    scores = scores_from(answered("d1", 2), scored("d1", 4, 6), settings())
    cell = pick(scores, "d1", "j")
    # sd of (0.4, 0.6) is 0.141421, its error 0.1; t(1 degree of freedom) at 97.5 % is 12.7062
    assert cell == Score("s", "d1", "j", 0.5, 0.0, 1.0, 2, 0, 0, calls=2)
    assert pick(scores, "d1") == replace(cell, judge=PANEL)
    assert pick(scores, OVERALL) == replace(cell, dimension=OVERALL, judge=PANEL)


def test_the_interval_is_the_wider_of_students_t_and_gaffkes_bound() -> None:
    marks = [3, 10, 7, 7, 0, 6, 8, 10, 9, 2]
    cell = pick(scores_from(answered("d1", 10), scored("d1", *marks), settings(tests={"d1": 10})), "d1")
    values = np.array(marks) / 10
    by_t = stats.t.interval(0.95, len(marks) - 1, values.mean(), stats.sem(values))
    by_gaffke = (
        1 - gaffke_bound(Counter(1 - Fraction(m, 10) for m in marks)),
        gaffke_bound(Counter(Fraction(m, 10) for m in marks)),
    )
    assert cell.low == pytest.approx(min(by_t[0], by_gaffke[0]), abs=1e-9)
    assert cell.high == pytest.approx(max(by_t[1], by_gaffke[1]), abs=1e-9)


def test_tests_of_one_generation_call_are_one_observation_of_the_spread() -> None:
    marks = [3, 3, 10, 10, 7, 7, 0, 0, 6, 6, 8, 8]
    calls = {"d1": tuple(f"call {i // 2}" for i in range(len(marks)))}
    asked, rows, read = settings(tests={"d1": len(marks)}), answered("d1", len(marks)), scored("d1", *marks)
    cell = pick(scores_from(rows, read, replace(asked, calls=calls)), "d1")
    apart = pick(scores_from(rows, read, asked), "d1")
    values = np.array(marks[::2]) / 10
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    assert (cell.low, cell.high) == pytest.approx((max(0.0, low), min(1.0, high)), abs=1e-9)
    assert (cell.calls, apart.calls) == (6, 12)
    assert apart.low is not None and cell.low is not None and cell.low < apart.low


def test_overall_weighs_dimensions_alike_and_adds_their_distances_in_squares() -> None:
    marks = {"d1": [5, 6, 5, 4, 6, 5, 7, 6], "d2": [8, 7, 9]}
    asked = settings(tests={d: len(m) for d, m in marks.items()})
    rows = [row for d, m in marks.items() for row in answered(d, len(m))]
    found = scores_from(rows, [row for d, m in marks.items() for row in scored(d, *m)], asked)
    overall, one, two = pick(found, OVERALL), pick(found, "d1"), pick(found, "d2")
    assert overall.mean == pytest.approx((5.5 + 8) / 20)
    for end, sign in (("low", -1), ("high", 1)):
        reach = np.hypot(getattr(one, end) - one.mean, getattr(two, end) - two.mean) / 2
        assert getattr(overall, end) == pytest.approx(overall.mean + sign * reach, abs=1e-12)
    assert (overall.n, overall.calls) == (11, 11)


def test_samples_are_averaged_within_their_test_first() -> None:
    asked = settings(samples=3)
    rows = [answer(f"d1-{i}", sample=k) for i in range(2) for k in range(3)]
    read = [verdict("d1-0", m, sample=k) for k, m in enumerate((10, 10, 10))] + [verdict("d1-1", 4, sample=1)]
    cell = pick(scores_from(rows, read, asked), "d1")
    assert cell.mean == pytest.approx(0.7)  # not 0.85, the mean of the four rows
    assert (cell.n, cell.excluded) == (4, 2)
    assert cell.low == 0.0  # of two tests


def test_the_order_of_a_tests_samples_changes_no_mean() -> None:
    """Else subjects with the same scores would differ by a rounding error."""
    marks = np.array(list(permutations((0.1, 0.2, 0.3, np.nan))))
    (mean,) = set(ItemScores("a", "d", PANEL, marks, 0).test_means.tolist())
    assert mean == pytest.approx(0.2)
    assert np.isnan(ItemScores("a", "d", PANEL, marks[:1] * np.nan, 0).test_means).all()


def test_a_judges_mark_is_the_mean_of_its_readable_replicates_and_an_answer_counts_once() -> None:
    asked = settings(judges=("mild", "strict"), tests={"d1": 3}, replicates=3)
    rows = [answer(f"d1-{i}") for i in range(3)]
    mild = {0: (10, 9, 8), 1: (4, None, 5), 2: (None, None, None)}
    strict = dict.fromkeys(range(3), (6, 6, 6))
    read = [
        verdict(f"d1-{i}", m, judge=judge, replicate=k)
        for judge, given in (("mild", mild), ("strict", strict))
        for i, found in given.items()
        for k, m in enumerate(found)
    ]
    scores = scores_from(rows, read, asked)
    alone, panel = pick(scores, "d1", "mild"), pick(scores, "d1")
    assert alone.mean == pytest.approx((0.9 + 0.45) / 2) and (alone.n, alone.excluded) == (2, 1)
    assert panel.mean == pytest.approx(((0.9 + 0.6) / 2 + (0.45 + 0.6) / 2) / 2) and (panel.n, panel.excluded) == (2, 1)
    assert scores_from(rows, read[::-1], asked) == scores


def test_replicates_that_the_sweep_no_longer_asks_for_enter_no_mean() -> None:
    read = [verdict("d1-0", 8), verdict("d1-0", 2, replicate=1)]
    assert pick(scores_from([answer("d1-0")], read, settings(replicates=1)), "d1").mean == 0.8
    assert pick(scores_from([answer("d1-0")], read, settings(replicates=2)), "d1").mean == 0.5


def test_panel_counts_only_what_every_judge_scored() -> None:
    asked = settings(judges=("mild", "strict"), tests={"d1": 3})
    read = [*scored("d1", 10, 8, 9, judge="mild"), *scored("d1", 6, 4, None, judge="strict")]
    scores = scores_from(answered("d1", 3), read, asked)
    assert pick(scores, "d1", "mild").mean == pytest.approx(0.9)
    assert pick(scores, "d1", "strict").mean == pytest.approx(0.5)
    panel = pick(scores, "d1")
    assert panel.mean == pytest.approx((0.8 + 0.6) / 2)
    assert (panel.n, panel.excluded) == (2, 1)


@pytest.mark.parametrize("state", [s for s in State if s is not State.OK])
def test_no_other_state_than_ok_enters_a_mean(state: State) -> None:
    rows = [answer("d1-0"), answer("d1-1", state=state)]
    spoilt = verdict("d1-0", 0, state=state)
    scores = scores_from(rows, [verdict("d1-0", 7), verdict("d1-1", 0)], settings())
    assert (pick(scores, "d1").mean, pick(scores, "d1").n, pick(scores, "d1").excluded) == (0.7, 1, 1)
    scores = scores_from(rows, [spoilt], settings())
    assert (pick(scores, "d1").mean, pick(scores, "d1").excluded) == (None, 2)


def test_one_test_has_a_mean_without_an_interval() -> None:
    cell = pick(scores_from(answered("d1", 1), scored("d1", 7), settings(tests={"d1": 1})), "d1")
    assert (cell.mean, cell.low, cell.high, cell.n) == (0.7, None, None, 1)


def test_a_dimension_without_a_score_leaves_no_overall() -> None:
    asked = settings(tests={"d1": 2, "d2": 1})
    rows = [*answered("d1", 2), answer("d2-0", state=State.FAILED)]
    scores = scores_from(rows, scored("d1", 5, 6), asked)
    assert pick(scores, "d1").mean == pytest.approx(0.55)
    assert pick(scores, "d2") == Score("s", "d2", PANEL, None, None, None, 0, 1, 0)
    assert pick(scores, OVERALL) == Score("s", OVERALL, PANEL, None, None, None, 2, 1, 0, calls=2)


def test_truncated_answers_are_judged_and_counted_or_left_out() -> None:
    rows, read = [answer("d1-0", finish="truncated"), answer("d1-1")], scored("d1", 2, 8)
    judged = pick(scores_from(rows, read, settings()), "d1")
    without = pick(scores_from(rows, read, replace(settings(), truncated="exclude")), "d1")
    assert (judged.mean, judged.n, judged.excluded, judged.truncated) == (0.5, 2, 0, 1)
    assert (without.mean, without.n, without.excluded, without.truncated) == (0.8, 1, 1, 0)


def test_equal_marks_have_an_interval_all_the_same() -> None:
    cell = pick(scores_from(answered("d1", 7), scored("d1", *[10] * 7), settings(tests={"d1": 7})), "d1")
    assert (cell.mean, cell.low, cell.high) == pytest.approx((1.0, 0.025 ** (1 / 7), 1.0), abs=1e-9)


def test_rows_the_sweep_does_not_ask_for_are_left_out() -> None:
    rows = [*answered("d1", 2), answer("d1-9"), answer("d1-0", subject="dropped")]
    read = [*scored("d1", 5, 5), verdict("d1-9", 0), verdict("d1-0", 0, judge="dropped")]
    scores = scores_from(rows, read, settings())
    assert {(s.subject, s.judge) for s in scores} == {("s", "j"), ("s", PANEL)}
    assert (pick(scores, "d1").mean, pick(scores, "d1").n) == (0.5, 2)


def test_a_row_that_is_there_twice_is_damage() -> None:
    with pytest.raises(DamagedFile, match="d1-0"):
        scores_from([answer("d1-0"), answer("d1-0", state=State.FAILED)], [], settings())
    with pytest.raises(DamagedFile, match="d1-0"):
        scores_from([answer("d1-0")], [verdict("d1-0", 3), verdict("d1-0", 5)], settings())


JUDGES, SUBJECTS = ("j1", "j2"), ("a", "b")
ASKED = settings(*SUBJECTS, judges=JUDGES, tests={"d1": 3, "d2": 2}, samples=2)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Answered], list[Judged]]:
    """Any part of what ASKED asks for, in any states."""
    rows, read = [], []
    for subject in SUBJECTS:
        for test in (t for tests in ASKED.tests.values() for t in tests):
            for sample in range(2):
                state = draw(st.sampled_from((None, State.OK, State.OK, State.OK, State.FAILED, State.BLOCKED)))
                if state is None:
                    continue
                finish = draw(st.sampled_from(("ok", "truncated")))
                rows.append(answer(test, subject=subject, sample=sample, state=state, finish=finish, reason="why"))
                for judge in JUDGES:
                    if state is State.OK and draw(st.booleans()):
                        mark = draw(st.one_of(st.none(), st.integers(0, 10)))
                        read.append(verdict(test, mark, subject=subject, sample=sample, judge=judge, reason="r"))
    return rows, read


@effort(deadline=None, max_examples=50)
@given(runs(), st.randoms(use_true_random=False), st.sampled_from(("judge", "exclude")))
def test_the_order_of_rows_changes_nothing(run: tuple[list[Answered], list[Judged]], random: Any, cut: Any) -> None:
    rows, read = run
    asked = replace(ASKED, truncated=cut)
    mixed_rows, mixed_read = random.sample(rows, len(rows)), random.sample(read, len(read))
    assert scores_from(mixed_rows, mixed_read, asked) == scores_from(rows, read, asked)
    ordered, shuffled = RowIndex.of(rows, read), RowIndex.of(mixed_rows, mixed_read)
    assert bounds_of(marks_of(shuffled, asked)) == bounds_of(marks_of(ordered, asked))
    found, mixed = row_statuses(ordered, asked), row_statuses(shuffled, asked)
    assert mixed == found
    assert count_statuses(mixed) == count_statuses(found)


@effort(deadline=None, max_examples=50)
@given(runs(), st.sampled_from(("judge", "exclude")))
def test_a_run_taken_in_by_parts_shows_what_its_rows_show(run: tuple[list[Answered], list[Judged]], cut: Any) -> None:
    rows, read = run
    asked = replace(ASKED, truncated=cut)
    parts = []
    for place in product(SUBJECTS, ASKED.tests):
        own = [row for row in rows if (row.subject, row.dimension) == place]
        on_it = [row for row in read if (row.subject, row.dimension) == place]
        parts.append((*place, RowIndex.of(own, on_it)))
    by_way, statuses = marks_and_statuses(parts, asked)
    for way, marks in by_way.items():
        assert str(list(marks)) == str(marks_of(RowIndex.of(rows, read), replace(asked, truncated=way)))
    assert list(statuses) == count_statuses(row_statuses(RowIndex.of(rows, read), asked))


def test_a_further_rater_changes_nothing_for_the_panel() -> None:
    """A person's few verdicts neither enter a mean nor take rows away from the panel."""
    asked, rows = settings(judges=JUDGES, tests={"d1": 40}), answered("d1", 40)
    read = [row for judge in JUDGES for row in scored("d1", *(i % 11 for i in range(40)), judge=judge)]
    person = scored("d1", 0, 0, 0, 0, judge="person")
    assert scores_from(rows, [*read, *person], asked) == scores_from(rows, read, asked)
    assert pick(scores_from(rows, [*person, *read], asked), "d1").n == 40
    assert row_statuses(RowIndex.of(rows, [*read, *person]), asked) == row_statuses(RowIndex.of(rows, read), asked)


@effort(deadline=None, max_examples=50)
@given(runs(), st.sampled_from(("judge", "exclude")))
def test_every_row_is_scored_or_accounted_for(run: tuple[list[Answered], list[Judged]], cut: Any) -> None:
    asked = replace(ASKED, truncated=cut)
    lost = [t for t in count_statuses(row_statuses(RowIndex.of(*run), asked)) if t.state is not State.OK]
    for score in scores_from(*run, asked):
        if score.dimension == OVERALL or score.judge == PANEL:
            continue
        assert score.n + score.excluded == asked.samples * len(asked.tests[score.dimension])
        reasons = [t.count for t in lost if t.judge in (None, score.judge) and _same_cell(t, score)]
        assert score.excluded == sum(reasons)
        if score.mean is not None and score.low is not None and score.high is not None:
            assert 0 <= score.low <= score.mean <= score.high <= 1


def _same_cell(a: Any, b: Any) -> bool:
    return bool((a.subject, a.dimension) == (b.subject, b.dimension))
