"""Agreement of judges against the reference libraries, closed forms and counts by hand."""

from dataclasses import replace
from random import Random

import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from hab_ray.analysis.agreement import (
    alpha,
    bootstrapped,
    drawn,
    kappa,
    majority,
    nominal_alpha,
    nominal_difference,
    pair_sums,
    unit_sums,
)
from hab_ray.analysis.intervals import FEW_CALLS, sums_by
from hab_ray.analysis.rates import shares_naming
from hab_ray.analysis.signs.judging import chance
from hab_ray.analysis.summary import Summary, summarise
from hab_ray.analysis.tables.trust.agreement import MIN_ANSWERS, Agreed, agreed
from hab_ray.analysis.tables.trust.findings import findings
from hab_ray.results import open_run
from hab_ray.rows import ChosenTest, State, Verdict
from hab_ray.stages.replies.verdicts import score
from hab_ray.stages.views import verdicts_file
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, page_of, revise, summary_of, verdict_files

DIMENSION, JUDGES, SUBJECTS, TESTS = "correct_misinformation", ("strict", "mild", "third"), ("alpha", "beta"), 30


def planted(work: Work, error: float = 0.15) -> dict[tuple[str, str], list[tuple[str, ...] | None]]:
    """Letters drawn for each judge and subject, None where a verdict could not be read."""
    random, rubric = Random(3), work.rubrics[DIMENSION]
    letters = [issue.letter for issue in rubric.judging.issues]
    drawn: dict[tuple[str, str], list[tuple[str, ...] | None]] = {}
    for subject in SUBJECTS:
        truth = [[letter for letter in letters if random.random() < 0.4] for _ in range(TESTS)]
        for judge in JUDGES:
            named: list[tuple[str, ...] | None] = [
                tuple(letter for letter in letters if (letter in row) != (random.random() < error)) for row in truth
            ]
            named[random.randrange(TESTS)] = None
            drawn[judge, subject] = named
            file = verdicts_file(judge, subject, DIMENSION)
            rows = [
                replace(row, state=State.UNREADABLE, score=None, issues=None)
                if given is None
                else replace(row, issues=given, score=float(score(rubric, given)))
                for row, given in zip(work.run.read(Verdict, file), named, strict=True)
            ]
            work.run.write(Verdict, file, rows)
    return drawn


@pytest.fixture
def work(make_run: MakeRun) -> Work:
    return make_run(Shape(subjects=SUBJECTS, judges=JUDGES, dimensions=(DIMENSION,), tests=TESTS))


def chosen(rows: list[Agreed], issue: str | None, judges: str, statistic: str) -> Agreed:
    (row,) = [r for r in rows if (r.issue, r.judges, r.statistic) == (issue, judges, statistic)]
    return row


def test_values_are_those_of_the_references(work: Work) -> None:
    named_by, rubric = planted(work), work.rubrics[DIMENSION]
    rows = list(agreed(summary_of(work)))
    everybody = ", ".join(JUDGES)
    by_judge = {judge: [named for subject in SUBJECTS for named in named_by[judge, subject]] for judge in JUDGES}
    marks = [[np.nan if n is None else float(score(rubric, n)) for n in by_judge[judge]] for judge in JUDGES]
    expected = krippendorff.alpha(np.array(marks), level_of_measurement="interval")
    found = chosen(rows, None, everybody, "alpha")
    assert found.value == pytest.approx(expected, abs=1e-9) and found.reliable and found.answers >= MIN_ANSWERS
    assert found.low is not None and found.high is not None and found.low < expected < found.high
    for issue in (each.letter for each in rubric.judging.issues):
        named = {j: np.array([np.nan if n is None else issue in n for n in by_judge[j]], dtype=float) for j in JUDGES}
        nominal = krippendorff.alpha(np.array(list(named.values())), level_of_measurement="nominal")
        assert chosen(rows, issue, everybody, "alpha").value == pytest.approx(nominal, abs=1e-9)
        first, second = named["strict"], named["mild"]
        both = ~np.isnan(first) & ~np.isnan(second)
        a, b = first[both], second[both]
        kappa, ac1 = (chosen(rows, issue, "strict, mild", name) for name in ("kappa", "ac1"))
        assert kappa.value == pytest.approx(cohen_kappa_score(a, b), abs=1e-9) and kappa.answers == both.sum()
        rate = (a.mean() + b.mean()) / 2
        by_chance = 2 * rate * (1 - rate)
        assert ac1.value == pytest.approx(((a == b).mean() - by_chance) / (1 - by_chance), abs=1e-9)
        assert ac1.named == kappa.named == min(a.sum(), b.sum())


def test_the_bootstrap_draws_generation_calls() -> None:
    """Tests of one call that are copies of each other tell no more than one of them."""
    random = np.random.default_rng(1)
    once = random.random((2, 40, 1))
    calls = [str(at // 3) for at in range(120)]
    (weights,) = drawn([40])
    alone = bootstrapped(unit_sums(once), alpha, weights)
    copied = bootstrapped(sums_by(unit_sums(np.repeat(once, 3, axis=1)), calls), alpha, weights)
    assert copied[1:] == pytest.approx(alone[1:], abs=0.02)
    (narrow,) = drawn([120])
    assert (bootstrapped(unit_sums(np.repeat(once, 3, axis=1)), alpha, narrow)[1] or 0) > (alone[1] or 0) + 0.05


def test_a_single_generation_call_has_no_interval(make_run: MakeRun) -> None:
    dimensions = (DIMENSION, "encourage_learning")
    work = make_run(Shape(subjects=SUBJECTS, judges=JUDGES, dimensions=dimensions, tests=6))
    for dimension in dimensions:
        file = f"tests/{dimension}.parquet"
        work.run.write(ChosenTest, file, [replace(test, call="one") for test in work.run.read(ChosenTest, file)])
    rows = agreed(summary_of(work))
    assert rows[0].value is not None and {(row.low, row.high) for row in rows} == {(None, None)}


def test_the_order_of_a_file_of_tests_changes_no_number(work: Work) -> None:
    planted(work, error=0.3)
    before = summary_of(work)
    file = f"tests/{DIMENSION}.parquet"
    tests = work.run.read(ChosenTest, file)
    work.run.write(ChosenTest, file, tests[7:] + tests[6::-1])
    after = summary_of(work)
    assert [list(table(after)) for table in (agreed, findings)] == [list(table(before)) for table in (agreed, findings)]
    assert after.scores == before.scores


def test_judges_that_agree_little_are_named_above_the_scores(work: Work) -> None:
    for error, told in ((0.02, ""), (0.1, "The judges agree little"), (0.3, "no better than chance")):
        planted(work, error)
        of_all = findings(summary_of(work))
        found = [each for each in of_all if each.kind == "agreement"]
        assert [told in each.title for each in found] == ([True] if told else []) and of_all[: len(found)] == found


def test_a_panel_of_one_agrees_with_nobody(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict",), dimensions=(DIMENSION,)))
    assert list(agreed(summary_of(work))) == []


def test_agreement_over_few_generation_calls_is_flagged_also_overall(make_run: MakeRun) -> None:
    """Of 60 tests of two dimensions, those of one are from as many calls as may be, or from one fewer."""
    dimensions = (DIMENSION, "encourage_learning")
    for calls, is_reliable in ((FEW_CALLS, True), (FEW_CALLS - 1, False)):
        work = make_run(Shape(SUBJECTS, JUDGES, dimensions, tests=60))
        file = f"tests/{DIMENSION}.parquet"
        tests = work.run.read(ChosenTest, file)
        work.run.write(ChosenTest, file, [replace(test, call=f"c{at % calls}") for at, test in enumerate(tests)])
        overall, few, many = [row for row in agreed(summary_of(work)) if row.issue is None]
        assert (overall.calls, few.calls, many.calls) == (calls, calls, 60)
        assert (overall.reliable, few.reliable, many.reliable) == (is_reliable, is_reliable, True)
    section = page_of(work).split('aria-labelledby="agreement"')[1].split("</section>")[0]
    assert "</b>*" in section and "than 10 generation calls" in " ".join(section.split())


def read_again(work: Work, error: float) -> Summary:
    """The run with a second reading by each judge, which errs on each issue of the first as often as said."""
    random, letters = Random(8), work.rubrics[DIMENSION].issue_letters()

    def again(row: Verdict) -> Verdict:
        named = tuple(x for x in letters if (x in (row.issues or ())) != (random.random() < error))
        return replace(row, replicate=1, issues=named, score=float(score(work.rubrics[DIMENSION], named)))

    for file in verdict_files(work):
        rows = work.run.read(Verdict, file)
        work.run.write(Verdict, file, [*rows, *(again(row) for row in rows if row.issues is not None)])
    return summary_of(work)


@pytest.fixture
def twice(make_run: MakeRun) -> Work:
    """A run that asks each judge twice, and has one reading so far."""
    return make_run(Shape(SUBJECTS, JUDGES, (DIMENSION,), tests=TESTS, replicates=2))


def test_an_issue_on_which_a_judges_readings_tie_counts_as_half_named(twice: Work) -> None:
    """Kappa and alpha are those of one reading of each judge, drawn by lot, on average."""
    planted(twice)
    summary, random = read_again(twice, error=0.2), np.random.default_rng(2)
    rows = agreed(summary)
    for at, issue in enumerate(twice.rubrics[DIMENSION].issue_letters()):
        shares = [
            np.concatenate([shares_naming(summary, subject, judge, DIMENSION) for subject in SUBJECTS])[:, 0, at]
            for judge in JUDGES
        ]
        lots = [np.where(np.isnan(shares), np.nan, random.random((3, 60)) < shares) for _ in range(100)]
        alphas = [krippendorff.alpha(lot, level_of_measurement="nominal") for lot in lots]
        assert chosen(list(rows), issue, ", ".join(JUDGES), "alpha").value == pytest.approx(np.mean(alphas), abs=0.02)
        one, other = (own[~np.isnan(shares[:2]).any(axis=0)] for own in shares[:2])
        drawn_once = [cohen_kappa_score(*(random.random(len(own)) < own for own in (one, other))) for _ in range(150)]
        found = chosen(list(rows), issue, "strict, mild", "kappa")
        assert found.value == pytest.approx(np.mean(drawn_once), abs=0.02)
    assert "Each judge read every answer 2 times" in " ".join(page_of(twice).split())


def test_alpha_of_an_issue_is_the_kappa_of_two_judges_however_often_they_tie() -> None:
    random = np.random.default_rng(1)
    truth = random.random(20_000) < 0.3
    for replicates in (1, 2, 3, 4):
        named = random.random((2, replicates, len(truth))) < np.where(truth, 0.8, 0.1)
        values = majority(named.mean(axis=1))[..., None]
        of_pair = kappa(pair_sums(values).sum(axis=0)[None])
        assert nominal_alpha(unit_sums(values, nominal_difference).sum(axis=0)[None]) == pytest.approx(
            of_pair, abs=0.002
        )
    ties = np.array([[0, 0.5, 1, 0.5]] * 2)[..., None]
    assert nominal_alpha(unit_sums(ties, nominal_difference).sum(axis=0)[None]) == pytest.approx(1 - 2 / (30 / 7))


def test_two_equal_readings_agree_as_one_does(twice: Work) -> None:
    planted(twice)
    once = agreed(summary_of(twice))
    assert agreed(read_again(twice, error=0.0)) == once


def test_the_page_speaks_neither_of_second_readings_nor_of_few_answers_without_them(work: Work) -> None:
    planted(work)
    page = page_of(work)
    assert "Each judge read every answer" not in page and "to rely on)" not in page


def test_marks_that_are_all_equal_leave_a_dash_that_the_page_explains(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=JUDGES[:2], dimensions=(DIMENSION,)))
    revise(work, Verdict, lambda row: replace(row, issues=(), score=10), *verdict_files(work))
    section = page_of(work).split('aria-labelledby="agreement"')[1].split("</section>")[0]
    assert "\N{EN DASH}*" not in section and "\N{EN DASH} where all marks are equal" in section


def test_few_answers_are_flagged(make_run: MakeRun) -> None:
    rows = agreed(summarise(open_run(make_run(Shape(judges=JUDGES[:2], dimensions=(DIMENSION,))).run_path)))
    assert rows and not any(row.reliable for row in rows)


@pytest.mark.parametrize(
    ("ends", "reliable", "how"),
    [
        ((-0.3, 0.0), True, "agree no better than chance"),
        ((-0.1, 0.3), True, "agree little or no better than chance"),
        ((-0.1, 0.3), False, "may agree no better than chance"),
        ((-0.17, 0.99), True, "may agree no better than chance"),
        ((0.1, 0.3), True, "agree little"),
        ((0.1, 0.3), False, "may agree little"),
        ((0.1, 0.5), True, "may agree little"),
    ],
)
def test_low_agreement_is_asserted_only_if_it_is_reliable(ends: tuple[float, float], reliable: bool, how: str) -> None:
    row = Agreed("overall", None, "strict, mild", "alpha", 60, 60, None, 0.2, *ends, reliable)
    (found,) = chance([row], [])
    assert found.title == f"The judges {how}" and ("Too little was judged" in found.detail) == how.startswith("may")
    assert ("say nothing" in found.detail) == (how == "agree no better than chance")


def test_overall_agreement_has_no_interval_if_a_dimension_has_a_single_generation_call(make_run: MakeRun) -> None:
    work = make_run(Shape(SUBJECTS, JUDGES, (DIMENSION, "encourage_learning"), tests=30))
    file = f"tests/{DIMENSION}.parquet"
    work.run.write(ChosenTest, file, [replace(test, call="one") for test in work.run.read(ChosenTest, file)])
    overall, one, many = [row for row in agreed(summary_of(work)) if row.issue is None]
    assert overall.value is not None and many.low is not None
    assert (overall.low, overall.high, one.low) == (None, None, None)
    assert "of too few answers or generation calls to rely on)" in " ".join(page_of(work).split())


def test_random_judges_are_named_although_a_dimension_has_a_single_generation_call(make_run: MakeRun) -> None:
    work, random = make_run(Shape(SUBJECTS, JUDGES, (DIMENSION, "encourage_learning"), tests=30)), Random(4)
    for file in verdict_files(work):
        rows = work.run.read(Verdict, file)
        work.run.write(Verdict, file, [replace(row, score=random.randrange(11)) for row in rows])
    file = f"tests/{DIMENSION}.parquet"
    work.run.write(ChosenTest, file, [replace(test, call="one") for test in work.run.read(ChosenTest, file)])
    kinds = {each.kind: each for each in findings(summary_of(work))}
    assert kinds["agreement"].title == "The judges may agree no better than chance"
    assert "without an interval because" in kinds["agreement"].detail and "ambiguous_rubric" not in kinds
