"""A declared analysis is computed as it was declared, first on the page and in the terminal."""

from collections.abc import Callable
from dataclasses import replace
from math import comb
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, false_discovery_control, ttest_ind

from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.declared import DeclaredResult, declared, p_of_separate, sentences
from hab_ray.analysis.tables.differences import differences
from hab_ray.cli.views.board import show_board
from hab_ray.cli.views.terminal import Terminal
from hab_ray.config.preregistration import PRIMARY, AnalysisPlan, Declaration, Existing
from hab_ray.rows import Verdict
from hab_ray.storage.record import amend_record
from hab_ray.work import Work
from tests.small_runs import HOSTILE, NOW, MakeRun, Shape, page_of, revise, summary_of, verdict_files

DIMENSIONS = ("ask_clarifying_questions", "correct_misinformation")
NOTHING = Existing()
SUBJECTS, JUDGES, TESTS = ("alpha", "beta", "gamma"), ("strict", "mild"), 12


@pytest.fixture
def work(make_run: MakeRun) -> Work:
    return make_run(Shape(subjects=SUBJECTS, judges=JUDGES, dimensions=DIMENSIONS, tests=TESTS, fail=0.1))


def declaring(work: Work, existing: Existing = NOTHING, **changes: Any) -> Summary:
    """The run with this plan, everything else as short as it can be."""
    plan = AnalysisPlan.model_validate({"primary": "overall", "alpha": 0.05, "stopping": "fixed", **changes})
    declaration = Declaration(at=NOW, sha256=plan.sha256, existing=existing, plan=plan)
    amend_record(work.run_path, declarations=(declaration,))
    return summary_of(work)


def family(summary: Summary, name: str) -> list[DeclaredResult]:
    return [row for row in declared(summary) if row.family == name]


def marks(summary: Summary, subject: str, dimension: str, judge: str) -> list[float | None]:
    (found,) = (m for m in summary.marks["judge"] if (m.subject, m.dimension, m.judge) == (subject, dimension, judge))
    return [None if np.isnan(mark) else float(mark) for (mark,) in found.by_test]


def test_the_primary_outcome_is_the_mean_that_was_named(work: Work) -> None:
    summary = declaring(work, primary={"dimension": DIMENSIONS[1], "judge": "mild", "question": "Which is best?"})
    rows = family(summary, PRIMARY)
    means = {}
    for subject in SUBJECTS:
        given = [mark for mark in marks(summary, subject, DIMENSIONS[1], "mild") if mark is not None]
        means[subject] = fmean(given)
    assert {row.one: row.value for row in rows} == pytest.approx(means)
    assert [row.value for row in rows] == sorted(means.values(), reverse=True)
    assert all(row.low is not None and row.high is not None and row.low < (row.value or 0) < row.high for row in rows)


def test_what_a_stopping_rule_does_to_intervals_is_not_hidden(work: Work) -> None:
    declaring(work)
    assert "declared stopping rule" not in page_of(work)
    declaring(work, stopping={"rule": "sequential", "details": "after 6 and 12 tests"})
    assert "do not allow for the declared stopping rule (sequential: after 6 and 12 tests)" in page_of(work)


@pytest.mark.parametrize("dimension", [OVERALL, DIMENSIONS[0]])
def test_the_primary_outcome_counts_tests_and_not_answers(make_run: MakeRun, dimension: str) -> None:
    work = make_run(Shape(subjects=SUBJECTS, judges=JUDGES, dimensions=DIMENSIONS, tests=TESTS, samples=3))
    rows = family(declaring(work, primary={"dimension": dimension}), PRIMARY)
    assert [row.tests for row in rows] == [TESTS * (len(DIMENSIONS) if dimension == OVERALL else 1)] * len(SUBJECTS)


@pytest.mark.parametrize("correction", ["holm", "bonferroni", "benjamini_hochberg", "none"])
def test_subjects_are_compared_as_everywhere_with_the_familys_own_correction(work: Work, correction: str) -> None:
    over = ["overall", DIMENSIONS[0]]
    given = {"name": "f", "compares": "subjects", "dimensions": over, "correction": correction}
    summary = declaring(work, families=[given], alpha=0.5, margin=0.2)
    rows = family(summary, "f")
    plain = {(d.subject, d.other, d.dimension): d for d in differences(summary) if d.dimension in over}
    assert [(row.one, row.other, row.dimension) for row in rows] == list(plain)
    assert [(r.value, r.low, r.high, r.p) for r in rows] == [(d.difference, d.low, d.high, d.p) for d in plain.values()]
    p_values = [row.p or 0.0 for row in rows]
    ordered = sorted(p_values)
    expected = {
        "holm": [max((6 - at) * p for at, p in enumerate(ordered[: ordered.index(own) + 1])) for own in p_values],
        "bonferroni": [6 * p for p in p_values],
        "benjamini_hochberg": list(false_discovery_control(p_values)),
        "none": p_values,
    }[correction]
    assert [row.adjusted for row in rows] == pytest.approx([min(1.0, p) for p in expected])
    assert [row.differs for row in rows] == [(row.adjusted or 0) <= 0.5 for row in rows]
    assert [row.equal for row in rows] == [(r.low or 0) >= -0.2 and (r.high or 0) <= 0.2 for r in rows]


def test_judges_are_compared_over_the_answers_that_both_scored(work: Work) -> None:
    given = {"name": "f", "compares": "judges", "among": ["strict", "mild"], "dimensions": [DIMENSIONS[0]]}
    summary = declaring(work, families=[given])
    (row,) = family(summary, "f")
    steps = []
    for test in range(TESTS):
        pairs = [tuple(marks(summary, subject, DIMENSIONS[0], judge)[test] for judge in JUDGES) for subject in SUBJECTS]
        known = [(one, other) for one, other in pairs if one is not None and other is not None]
        steps += [fmean(one - other for one, other in known)] if known else []
    assert row.value == pytest.approx(fmean(steps), abs=1e-12) and row.tests == len(steps) and row.p is not None


PANEL_OF_FIVE = ("a", "b", "c", "d", "e")


def judged(make_run: MakeRun, judges: tuple[str, ...], score: Callable[[int, int], float]) -> Summary:
    """A run of two subjects and 24 tests, in which the judge of a number scores a test of a number so."""
    work = make_run(Shape(judges=judges, dimensions=DIMENSIONS, tests=24))
    at = {judge: number for number, judge in enumerate(judges)}

    def scored(row: Verdict) -> Verdict:
        return replace(row, issues=(), score=score(at[row.judge], int(row.test_id[-3:])))

    revise(work, Verdict, scored, *verdict_files(work))
    return declaring(work, families=[{"name": "f", "compares": "judges", "dimensions": [OVERALL, DIMENSIONS[0]]}])


@pytest.mark.parametrize(("dimension", "faults"), [(DIMENSIONS[0], 12), (OVERALL, 24)])
def test_a_judge_is_compared_with_the_panel_as_any_judge(make_run: MakeRun, dimension: str, faults: int) -> None:
    """Each of 12 tests gets no points from one judge, who is never the first: any judge is so with 1/5."""
    summary = judged(make_run, PANEL_OF_FIVE, lambda judge, test: 10.0 * (test >= 12 or judge != 1 + test % 4))
    (row,) = (r for r in family(summary, "f") if (r.one, r.other, r.dimension) == ("a", PANEL, dimension))
    chances = binom(faults, 1 / 5)
    mean = faults / 5
    assert row.p == pytest.approx(sum(chances.pmf(n) for n in range(faults + 1) if abs(n - mean) >= mean - 1e-9))
    assert row.value == pytest.approx(12 / 24 / 5) and not row.differs


def test_a_judge_who_varies_more_than_the_others_is_not_found_to_differ_from_the_panel(make_run: MakeRun) -> None:
    """16 tests above the others' scores and 8 below, equally far."""
    summary = judged(make_run, ("a", "b", "c"), lambda judge, test: 5.0 if judge else (1.0 if test < 8 else 9.0))
    (row,) = (r for r in family(summary, "f") if (r.one, r.other, r.dimension) == ("a", PANEL, DIMENSIONS[0]))
    assert row.p == pytest.approx(2 * binom(24, 0.5).sf(15))


def test_one_of_two_judges_differs_from_the_panel_as_from_the_other(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=JUDGES, dimensions=DIMENSIONS, tests=TESTS, fail=0.1))
    rows = family(declaring(work, families=[{"name": "f", "compares": "judges"}]), "f")
    assert [(row.one, row.other) for row in rows] == [JUDGES, (JUDGES[0], PANEL), (JUDGES[1], PANEL)]
    assert len({round(row.p or 0, 3) for row in rows}) == 1 and (rows[0].p or 0) < 1
    assert rows[1].value == pytest.approx((rows[0].value or 0) / 2)
    named = family(declaring(work, families=[{"name": "f", "compares": "judges", "among": ["strict", "panel"]}]), "f")
    assert [(row.one, row.other, row.p) for row in named] == [(JUDGES[0], PANEL, rows[1].p)]


def test_a_single_judge_is_the_panel(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict",), dimensions=DIMENSIONS, tests=TESTS))
    (row,) = family(declaring(work, families=[{"name": "f", "compares": "judges"}]), "f")
    assert (row.one, row.other, row.value, row.p) == ("strict", PANEL, 0, 1)


def test_a_dimension_named_twice_is_compared_and_corrected_for_once(work: Work) -> None:
    once, twice = (
        family(
            declaring(work, families=[{"name": "f", "compares": "subjects", "dimensions": DIMENSIONS[:1] * times}]), "f"
        )
        for times in (1, 2)
    )
    assert twice == once and len(once) == 3


def test_dimensions_are_compared_within_each_subject(work: Work) -> None:
    summary = declaring(work, families=[{"name": "f", "compares": "dimensions"}])
    rows = family(summary, "f")
    assert [row.within for row in rows] == list(SUBJECTS)
    for row in rows:
        one, other = (
            [mark for mark in marks(summary, row.within, name, PANEL) if mark is not None] for name in DIMENSIONS
        )
        assert row.value == pytest.approx(fmean(one) - fmean(other))
        assert row.p == pytest.approx(ttest_ind(one, other, equal_var=False).pvalue)
        assert row.low is not None and row.high is not None and row.low < (row.value or 0) < row.high


@pytest.mark.parametrize(
    ("tests", "points", "p"), [(2, (10, 5), 1 / 3), (3, (10, 0), 1 / 10), (12, (10, 9), 2 / 2704156), (3, (7, 7), None)]
)
def test_two_dimensions_without_any_spread_differ_by_chance_as_often_as_calls_can_be_split(
    make_run: MakeRun, tests: int, points: tuple[float, float], p: float | None
) -> None:
    """Twice one in the number of ways to divide the calls of both; equal scores show nothing."""
    work = make_run(Shape(dimensions=DIMENSIONS, tests=tests))
    by_dimension = dict(zip(DIMENSIONS, points, strict=True))
    revise(work, Verdict, lambda row: replace(row, issues=(), score=by_dimension[row.dimension]), *verdict_files(work))
    rows = family(declaring(work, families=[{"name": "f", "compares": "dimensions"}]), "f")
    assert [row.p for row in rows] == [p if p is None else pytest.approx(p)] * 2


def drawn_side(random: np.random.Generator, calls: int) -> tuple[list[float], list[int]]:
    """Marks of tests in calls of one to eight, whose level differs by call and has the mean .7."""
    of_tests = np.repeat(np.arange(calls), random.integers(1, 9, calls))
    return (0.7 + random.normal(0, 0.15, calls)[of_tests] + random.normal(0, 0.1, len(of_tests))).tolist(), [*of_tests]


def test_dimensions_with_uneven_generation_calls_differ_by_chance_in_at_most_7_of_100_pairs() -> None:
    random = np.random.default_rng(1)
    found = [p_of_separate([drawn_side(random, 8), drawn_side(random, 15)]) or 0.0 for _ in range(600)]
    assert 0.03 < np.mean(np.array(found) <= 0.05) < 0.07


def test_the_p_value_of_two_dimensions_is_of_the_difference_that_is_shown() -> None:
    """A large call of low marks outweighs twelve calls of one test each: the means over tests are nearly equal."""
    marks, calls = [0.3] * 12 + [0.8, 0.9] * 6, [0] * 12 + [*range(1, 13)]
    other = [0.5, 0.65] * 20
    p = p_of_separate([(marks, calls), (other, [*range(40)])])
    assert fmean(marks) == pytest.approx(fmean(other)) and p == pytest.approx(1)


def test_scores_that_differ_by_rounding_only_have_no_spread() -> None:
    """Means of calls of one to seven tests, all with the mean .7."""
    calls = [call for call in range(7) for _ in range(call + 1)]
    sides = [([score] * len(calls), calls) for score in (0.7, 0.1 + 0.2)]
    assert p_of_separate(sides) == pytest.approx(2 / comb(14, 7))


def test_the_declared_margin_holds_for_all_differences(work: Work) -> None:
    assert {row.margin for row in differences(declaring(work))} == {0.05}
    wide = differences(declaring(work, margin=0.9))
    assert {row.margin for row in wide} == {0.9} and all(row.equal for row in wide)


def test_it_stands_first_on_page_and_terminal(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    none = {"name": "none", "compares": "dimensions", "among": [OVERALL, next(iter(work.rubrics))]}
    families = [{"name": "pairs", "compares": "subjects", "among": ["alpha", "beta"]}, none]
    summary = declaring(work, primary={"question": "Is alpha better?"}, families=families, exclusions=[HOSTILE])
    show_board(summary, Terminal(width=200))
    terminal = capsys.readouterr().out
    assert terminal.startswith("Declared beforehand: Is alpha better? (mean score, overall, by panel: ")
    assert "Declared family pairs: 0 of 1 comparisons differ at 0.05 (correction: holm)" in terminal
    assert "Declared family none: there is nothing to compare" in terminal and "0 of 0" not in terminal
    page = page_of(work)
    assert "there is nothing to compare" in page and "0 of 0" not in page
    assert page.split('<h2 id="findings"')[0].count('class="number">Tests</th>') == 1 + len(families)
    assert "; within each subject; correction: holm" in page
    assert page.index('<h2 id="declared"') < page.index('<h2 id="findings"') < page.index('<h2 id="leaderboard"')
    assert "Is alpha better?" in page and "&lt;script&gt;alert(1)" in page and page.count("xploratory") == 1
    assert [row.dimension for row in family(summary, PRIMARY)] == [OVERALL] * len(SUBJECTS)


def test_the_terminal_calls_no_late_declaration_one_made_beforehand(work: Work) -> None:
    late = list(sentences(declaring(work, Existing(answers=60))))
    assert late[0].startswith("Declared after the first answers: mean score"), late


def test_the_terminal_says_that_the_plan_was_edited_since(work: Work) -> None:
    (declaration,) = declaring(work).run.record.declarations
    amend_record(work.run_path, declarations=(declaration.model_copy(update={"sha256": "0" * 64}),))
    first = next(sentences(summary_of(work)))
    assert first.startswith("Declared beforehand, and edited in the run's sweep.yaml since: mean score"), first


def test_a_small_difference_that_counts_is_not_said_to_be_none(work: Work) -> None:
    families = [{"name": "pairs", "compares": "subjects", "among": ["alpha", "beta"]}]
    summary = declaring(work, families=families)
    (row,) = family(summary, "pairs")
    summary.tables[declared.module] = [replace(row, value=0.004, differs=True)]
    assert list(sentences(summary))[1].endswith(": alpha above beta by 0.004 (overall)")


def test_nothing_is_said_where_nothing_was_declared(work: Work) -> None:
    summary = summary_of(work)
    assert list(declared(summary)) == [] and list(sentences(summary)) == []
    assert 'id="declared"' not in page_of(work)
