"""Designs and their dollars, and alternatives to the order, against direct computations over a run's rows."""

import re
from collections.abc import Callable
from dataclasses import replace
from math import isnan, sqrt
from pathlib import Path
from random import Random
from statistics import fmean, variance

import pytest

from hab_ray.analysis import power
from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.tables.generalisability import AS_IT_IS, DESIGN, Generalised, Shown, generalisability
from hab_ray.analysis.tables.robustness import (
    ANY_ISSUE,
    NO_FLOOR,
    ONE_POINT,
    RANK,
    SEPARATE_NOBODY,
    SPLIT_HALF,
    TEST,
    WRONG_WAY,
    Robust,
    robustness,
)
from hab_ray.analysis.tables.robustness import AS_IT_IS as ROBUST_AS_IT_IS
from hab_ray.catalog.prices import NANO
from hab_ray.report.visible import MINUS
from hab_ray.resolve import write_record
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.rubric import Rubric
from hab_ray.stages.views import verdicts_file
from hab_ray.work import Work, call_stage
from tests import instant
from tests.small_runs import MakeRun, Shape, answer_files, page_of, revise, summary_of, verdict_files

SUBJECTS, JUDGES, TESTS = ("alpha", "beta", "gamma", "delta"), ("strict", "mild"), 12
ANSWER, VERDICT = 3_000_000, 5_000_000


def paid(work: Work) -> None:
    revise(work, Verdict, lambda row: replace(row, cost_nanousd=VERDICT), *verdict_files(work))
    revise(work, Response, lambda row: replace(row, cost_nanousd=ANSWER), *answer_files(work))


def test_equal_answers_whose_verdicts_share_a_reply_are_paid_for_once(work: Work) -> None:
    paid(work)
    revise(work, Verdict, lambda row: replace(row, reply_key=f"{row.judge} {row.test_id}"), *verdict_files(work))
    found = designs(list(generalisability(summary_of(work))), OVERALL)
    verdicts = len(work.rubrics) * TESTS * VERDICT
    assert found["one judge more"].usd == pytest.approx(verdicts / 1e9)


def test_a_verdict_that_was_requested_again_costs_twice(work: Work) -> None:
    paid(work)
    revise(work, Verdict, lambda row: replace(row, asks=1 + (row.judge == JUDGES[0])), *verdict_files(work))
    found = designs(list(generalisability(summary_of(work))), OVERALL)
    verdicts = len(work.rubrics) * len(SUBJECTS) * TESTS * VERDICT * 1.5
    assert found["one judge more"].usd == pytest.approx(verdicts / 1e9)


def test_judging_given_answers_once_more_has_a_price_though_they_have_none(work: Work) -> None:
    paid(work)
    revise(work, Response, lambda row: replace(row, cost_nanousd=None), *answer_files(work))
    found = designs(list(generalisability(summary_of(work))), OVERALL)
    verdicts = len(work.rubrics) * len(SUBJECTS) * TESTS * VERDICT
    assert found["one judge more"].usd == pytest.approx(verdicts / 1e9)
    assert (found[AS_IT_IS].usd, found["twice the tests"].usd) == (0, None)


@pytest.fixture
def work(make_run: MakeRun) -> Work:
    return make_run(Shape(subjects=SUBJECTS, judges=JUDGES, tests=TESTS))


def designs(rows: list[Generalised], dimension: str) -> dict[str, Generalised]:
    return {row.name: row for row in rows if row.kind == DESIGN and row.dimension == dimension}


def test_what_other_designs_cost_and_bring(work: Work) -> None:
    paid(work)
    rows = list(generalisability(summary_of(work)))
    answers = len(SUBJECTS) * TESTS
    for dimension, dimensions in ((OVERALL, len(work.rubrics)), *((each, 1) for each in work.rubrics)):
        found = designs(rows, dimension)
        dollars = {
            AS_IT_IS: 0,
            "twice the tests": answers * (ANSWER + 2 * VERDICT),
            "four times the tests": 3 * answers * (ANSWER + 2 * VERDICT),
            "one judge more": answers * VERDICT,
            "twice the judges": 2 * answers * VERDICT,
            "one replicate more": 2 * answers * VERDICT,
        }
        for name, each in dollars.items():
            assert found[name].usd == pytest.approx(dimensions * each / 1e9)
        now, twice = found[AS_IT_IS].difference_error, found["twice the tests"].difference_error
        assert now and twice and twice == pytest.approx(now / sqrt(2))
        assert found["one replicate more"].difference_error is None
    of_dimensions = [designs(rows, dimension)[AS_IT_IS].difference_error or 0 for dimension in work.rubrics]
    together = sqrt(sum(error**2 for error in of_dimensions)) / len(of_dimensions)
    assert designs(rows, OVERALL)[AS_IT_IS].difference_error == pytest.approx(together)


@pytest.mark.parametrize(("turned", "share"), [(1, 1.0), (-1, 0.0)])
def test_what_a_judge_likes_everywhere_does_not_average_out(make_run: MakeRun, turned: int, share: float) -> None:
    """A judge who likes a subject in both dimensions alike, or in one and not in the other."""
    work = make_run(Shape(subjects=SUBJECTS, judges=JUDGES, tests=TESTS))
    first = next(iter(work.rubrics))

    def liked(row: Verdict) -> Verdict:
        liking = (row.judge == "mild" and row.subject == "beta") * (1 if row.dimension == first else turned)
        return replace(row, issues=(), score=float(5 + liking + int(row.test_id[-3:]) % 2))

    revise(work, Verdict, liked, *verdict_files(work))
    rows = list(generalisability(summary_of(work)))
    of_one = designs(rows, first)
    for name, row in designs(rows, OVERALL).items():
        own = of_one[name].with_judges_error
        assert row.with_judges_error == (None if own is None else pytest.approx(share * own, abs=1e-9)), name
    assert (of_one[AS_IT_IS].with_judges_error or 0) > 0.01


MAKING = ("generate", "validate", "select")


def made_run(tmp_path: Path) -> instant.Run:
    """A run that makes its tests, complete; with two subjects whose answers are alike."""
    run = instant.Run(instant.work_of(tmp_path, **instant.MADE, subjects=["house/a", "house/b"]))
    write_record(run.work, instant.NOW)
    run.all()
    return run


def test_more_tests_cost_what_the_run_paid_to_make_its_own(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    store, work = run.store(), run.work
    for model in work.models:
        store.refresh(model)
    for dimension in work.rubrics:
        keys = {
            call.key: call.model
            for shard in work.shards()
            if shard.stage in MAKING and shard.spec.makes_calls and shard.dimension == dimension
            for _, call in call_stage(work, shard).requests(work.tasks(shard))
        }
        paid = sum(store.costs(model, [key])[key] for key, model in keys.items()) / NANO
        found = designs(list(generalisability(summary_of(work))), dimension)
        assert len(keys) == 3 + 7 + 5 and paid > 0  # calls for three queries each, candidates, those kept
        factors = {AS_IT_IS: 0, "twice the tests": 1, "four times the tests": 3, "twice the judges": 0}
        assert {name: found[name].making_usd for name in factors} == pytest.approx(
            {name: factor * paid for name, factor in factors.items()}
        )
        twice = found["twice the tests"].usd
        assert twice and twice > paid
    page = page_of(work)
    assert "of generating, validating and embedding more tests" in page


def test_without_the_store_the_cost_of_making_tests_is_left_out_and_said_so(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    with_store = designs(list(generalisability(summary_of(run.work))), OVERALL)["twice the tests"]
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    without = designs(list(generalisability(summary_of(run.work))), OVERALL)["twice the tests"]
    assert with_store.usd and with_store.making_usd and without.usd and without.making_usd is None
    assert without.usd == pytest.approx(with_store.usd - with_store.making_usd)
    page = page_of(run.work)
    assert "it leaves out generating, validating and embedding more tests" in page


def test_given_tests_cost_nothing_that_could_be_known(work: Work) -> None:
    paid(work)
    assert {row.making_usd for row in generalisability(summary_of(work))} == {None}
    assert "run's were given" in " ".join(page_of(work).split())


def test_a_few_lost_verdicts_leave_the_designs_their_tests(work: Work) -> None:
    """Each subject and judge lacks one verdict on another test; the scores depend on the test alone."""
    uneven = {test: 0.2 * (test % 5) for test in range(TESTS)}

    def lost(row: Verdict) -> Verdict:
        number = int(row.test_id[-3:])
        if number == 2 * SUBJECTS.index(row.subject) + JUDGES.index(row.judge):
            return replace(row, issues=None, score=None, state=State.FAILED)
        noise = ((SUBJECTS.index(row.subject) + 1) * (number + 1) * 7 % 11) / 11
        return replace(row, issues=(), score=5 + uneven[number] + noise + JUDGES.index(row.judge))

    revise(work, Verdict, lost, *verdict_files(work))
    paid(work)
    summary = summary_of(work)
    dimension = next(iter(work.rubrics))
    rows = list(generalisability(summary))
    found, complete = designs(rows, dimension), TESTS - len(SUBJECTS) * len(JUDGES)
    assert {row.tests for row in rows if row.kind != DESIGN} == {complete}
    assert [row.tests for row in found.values()][:3] == [TESTS, 2 * TESTS, 4 * TESTS]
    variances = {row.name: row.variance for row in rows if row.dimension == dimension and row.kind != DESIGN}
    rest = (variances["subject x test"] or 0) + max(0, variances["subject x test x judge, and the rest"] or 0) / 2
    assert found[AS_IT_IS].difference_error == pytest.approx(sqrt(2 * rest / TESTS))
    assert found["twice the tests"].usd == pytest.approx(len(SUBJECTS) * TESTS * (ANSWER + 2 * VERDICT) / 1e9)
    page = " ".join(page_of(work).split())
    both = len(work.rubrics)
    variances_from = f"They rest on variances from {both * complete} of {both * TESTS} tests"
    assert f"hold for a subject with a score on every test. {variances_from}" in page
    reliability = page.split('aria-labelledby="robustness"')[1].split("</table>")[1]
    assert f'<td class="number">{TESTS}</td>' in reliability
    assert len(re.findall(rf"\d of {complete}</td>", reliability)) == 2 * both


def test_the_page_says_why_it_shows_no_reliability(make_run: MakeRun) -> None:
    def shown(work: Work) -> str:
        page = " ".join(page_of(work).split())
        return page.split('aria-labelledby="robustness"')[1].split("</section>")[0]

    dimensions = ("ask_clarifying_questions", "correct_misinformation")
    assert "Split-half reliability needs three subjects." in shown(make_run(Shape(dimensions=dimensions)))
    work = make_run(Shape(subjects=SUBJECTS, dimensions=dimensions))
    assert "is unknown" not in shown(work)

    def failed(row: Verdict) -> Verdict:
        is_read = row.test_id[-3:] == f"{SUBJECTS.index(row.subject):03d}"
        return row if is_read else replace(row, issues=None, score=None, state=State.FAILED)

    revise(work, Verdict, failed, *(verdicts_file("strict", subject, dimensions[1]) for subject in SUBJECTS))
    needs = "it needs two tests with a score by every judge for every subject."
    assert f"Split-half reliability of Correct misinformation is unknown: {needs}" in shown(work)


def test_a_dimension_without_scores_takes_the_ranks_and_not_the_reliability_of_others(make_run: MakeRun) -> None:
    dimensions = ("ask_clarifying_questions", "correct_misinformation")
    work = make_run(Shape(subjects=SUBJECTS, dimensions=dimensions, tests=8))
    for subject in SUBJECTS:
        work.run.write(Verdict, verdicts_file("strict", subject, dimensions[1]), [])
    rows = list(robustness(summary_of(work)))
    assert {row.kind for row in rows} == {"reliability", "test"} and {row.dimension for row in rows} == {dimensions[0]}
    page = " ".join(page_of(work).split())
    assert "There are no ranks: fewer than two subjects have an overall score." in page
    assert "Split-half reliability of Correct misinformation is unknown" in page
    assert (
        "No two subjects can be compared</b> in the first table: none share a scored test in every dimension." in page
    )


def test_readings_differ_by_their_own_variance(work: Work) -> None:
    def again(row: Verdict) -> Verdict:
        return replace(row, replicate=1, score=float(len(row.test_id + row.judge) % 3) + (row.score or 0) / 2)

    for file in verdict_files(work):
        rows = work.run.read(Verdict, file)
        work.run.write(Verdict, file, [*rows, *map(again, rows)])
    summary = summary_of(work)
    twice = replace(summary, settings=replace(summary.settings, replicates=2), tables={})
    by_answer: dict[object, list[float]] = {}
    dimension = next(iter(work.rubrics))
    for row in summary.run.verdicts(dimension=dimension).to_pylist():
        key = row["subject"], row["judge"], row["test_id"]
        by_answer.setdefault(key, []).append(row["score"] / 10)
    direct = fmean(variance(scores) for scores in by_answer.values())
    (found,) = (row for row in generalisability(twice) if row.dimension == dimension and row.name == "replicate")
    assert found.variance == pytest.approx(direct)
    assert designs(list(generalisability(twice)), dimension)["one replicate more"].difference_error is not None


def rescored(work: Work, judges: tuple[str, ...], points: Callable[[Verdict, Rubric], float]) -> dict[str, float]:
    """Overall means over the answers that all of these judges scored, each test once."""
    found = {}
    for subject in SUBJECTS:
        by_dimension = []
        for dimension, rubric in work.rubrics.items():
            files = [work.run.read(Verdict, verdicts_file(judge, subject, dimension)) for judge in judges]
            given = [{row.test_id: points(row, rubric) for row in rows if row.state is State.OK} for rows in files]
            shared = set.intersection(*(set(each) for each in given))
            by_dimension.append(fmean(fmean(each[test] for each in given) for test in shared))
        found[subject] = fmean(by_dimension)
    return found


def ranks_of(rows: list[Robust], name: str) -> dict[str, tuple[float | None, int | None]]:
    return {row.subject or "": (row.value, row.rank) for row in rows if row.kind == RANK and row.name == name}


def test_ranks_under_other_points_and_judges_are_those_computed_by_hand(make_run: MakeRun) -> None:
    work = make_run(Shape(subjects=SUBJECTS, judges=JUDGES, tests=TESTS, fail=0.08))
    rows = list(robustness(summary_of(work)))

    def costs(row: Verdict, rubric: Rubric) -> float:
        deductions = {issue.letter: issue.deduction for issue in rubric.judging.issues}
        return 1 - sum(deductions[letter] for letter in row.issues or ()) / 10

    expected = {
        ROBUST_AS_IT_IS: rescored(work, JUDGES, lambda row, _: (row.score or 0) / 10),
        "without strict": rescored(work, ("mild",), lambda row, _: (row.score or 0) / 10),
        "without mild": rescored(work, ("strict",), lambda row, _: (row.score or 0) / 10),
        NO_FLOOR: rescored(work, JUDGES, costs),
        ONE_POINT: rescored(work, JUDGES, lambda row, r: 1 - len(row.issues or ()) / len(r.judging.issues)),
        ANY_ISSUE: rescored(work, JUDGES, lambda row, _: float(not row.issues)),
    }
    assert list(expected) == list(dict.fromkeys(row.name for row in rows if row.kind == RANK))
    for name, means in expected.items():
        found = ranks_of(rows, name)
        for subject, mean in means.items():
            assert found[subject][0] == pytest.approx(mean), name
            assert found[subject][1] == 1 + sum(other > mean + 1e-9 for other in means.values())
    assert len({tuple(found.values()) for found in expected.values()}) == len(expected)


def test_an_issue_that_half_of_the_readings_name_is_half_an_issue(work: Work) -> None:
    for file in verdict_files(work):
        rows = [replace(row, issues=(), score=10) for row in work.run.read(Verdict, file)]
        named = [replace(row, issues=("A",), score=3, replicate=1) for row in rows]
        work.run.write(Verdict, file, [*rows, *named])
    summary = summary_of(work)
    found = robustness(replace(summary, settings=replace(summary.settings, replicates=2)))
    assert {value for value, _ in ranks_of(list(found), ANY_ISSUE).values()} == {0.5}


def test_tests_that_separate_nobody_or_the_wrong_way_round_are_counted(work: Work) -> None:
    """Subjects in their order on all tests but two: one where all are alike, one turned round."""
    dimension = next(iter(work.rubrics))

    def ordered(row: Verdict) -> Verdict:
        place, number = SUBJECTS.index(row.subject), int(row.test_id[-3:])
        score = {0: 5.0, 1: 2.0 + place}.get(number, 9.0 - 2 * place - number % 2)
        return replace(row, score=score, issues=())

    revise(work, Verdict, ordered, *verdict_files(work))
    rows = list(robustness(summary_of(work)))
    found = {row.name: row.value for row in rows if row.dimension == dimension and row.subject is None}
    assert (found[SEPARATE_NOBODY], found[WRONG_WAY]) == (1, 1)
    tests = {row.name: row.value for row in rows if row.kind == TEST and row.dimension == dimension}
    assert tests[f"{dimension}-000"] is None and tests[f"{dimension}-001"] == pytest.approx(-1)
    assert all(value == pytest.approx(1) for name, value in tests.items() if int(name[-3:]) > 1)
    reliability = found[SPLIT_HALF]
    assert reliability is not None and not isnan(reliability) and reliability > 0.99
    page = page_of(work)
    section = page.split('aria-labelledby="robustness"')[1].split("</section>")[0]
    assert f"<code>{dimension}-001</code> {MINUS}1.00" in section and "without strict" in section


def test_noise_is_not_shown_as_another_order(work: Work) -> None:
    """Scores drawn by lot: ranks within the leaderboard's range are not bold, and a reliability below 0 is none."""
    random = Random(5)
    revise(work, Verdict, lambda row: replace(row, score=float(random.randrange(11)), issues=()), *verdict_files(work))
    page = page_of(work)
    section = page.split('aria-labelledby="robustness"')[1].split("</section>")[0]
    ranks = section.split("</table>")[0]
    assert ranks.count("1\N{EN DASH}4") == len(SUBJECTS) and "<b>" not in ranks
    assert "below 0" in section.split("</table>")[1] and "-0." not in section.split("</table>")[1]
    designs = page.split('aria-labelledby="generalisability"')[1].split("</section>")[0]
    assert "Detectable difference" in designs and "every answer was read once" in designs


def test_a_detectable_difference_is_that_of_a_comparison_with_as_many_generation_calls(work: Work) -> None:
    shown = generalisability.shown(summary_of(work))
    assert isinstance(shown, Shown)
    for dimension, rows in shown.designs.items():
        for row, times in zip(rows, (1, 2, 4), strict=False):
            calls = times * TESTS * (len(work.rubrics) if dimension == OVERALL else 1)
            assert row.difference_error is not None
            expected = power.Design(len(SUBJECTS), calls, row.difference_error * sqrt(calls)).smallest
            assert shown.detectable(row) == pytest.approx(expected)


def test_an_error_estimated_as_0_makes_no_difference_of_0_detectable(work: Work) -> None:
    revise(work, Verdict, lambda row: replace(row, score=10.0, issues=()), *verdict_files(work))
    shown = generalisability.shown(summary_of(work))
    assert isinstance(shown, Shown)
    rows = [row for found in shown.designs.values() for row in found]
    assert {row.difference_error for row in rows} == {0.0, None}
    assert {shown.detectable(row) for row in rows} == {None}


def test_the_order_as_it_is_is_no_change_of_order(make_run: MakeRun) -> None:
    """The subject that is better on every shared test also has the hard ones, hence the lower mean."""
    dimension = "ask_clarifying_questions"
    work = make_run(Shape(subjects=("alpha", "beta"), dimensions=(dimension,), tests=20))
    for subject, easy in (("alpha", ()), ("beta", ("D",))):
        file = verdicts_file("strict", subject, dimension)
        rows = [replace(row, issues=easy, score=8 if easy else 10) for row in work.run.read(Verdict, file)[:10]]
        if subject == "alpha":
            rows += [replace(row, issues=("A",), score=0) for row in work.run.read(Verdict, file)[10:]]
        work.run.write(Verdict, file, rows)
    page = page_of(work)
    section = page[page.index("<b>2</b> ranks would leave") :]
    assert section[: section.index("</table>")].count("<b>") == 3, "the number, and the two ranks without the floor"


def test_one_subject_has_nothing_to_compare(make_run: MakeRun) -> None:
    summary = summary_of(make_run(Shape(subjects=("alpha",))))
    assert not generalisability(summary) and not robustness(summary)


def test_scores_that_do_not_vary_do_not_tell_what_more_tests_buy(work: Work) -> None:
    assert "Twice the tests</b> would lower the error" in page_of(work)
    revise(work, Verdict, lambda row: replace(row, issues=(), score=10), *verdict_files(work))
    shown = page_of(work)
    assert "These\nscores vary too little to tell." in shown and "would lower" not in shown


def test_what_more_tests_buy_in_one_dimension_alone_is_said_of_that_dimension(work: Work) -> None:
    one, other = work.rubrics
    assert f"In {work.rubrics[other].title}, " not in page_of(work)
    work.run.write(ChosenTest, f"tests/{one}.parquet", work.run.read(ChosenTest, f"tests/{one}.parquet")[:1])
    assert f"In {work.rubrics[other].title}, <b>twice the tests</b> would lower the error" in page_of(work)


@pytest.mark.parametrize(("judges", "said"), [(("a",), "<p>With other points"), (("a", "b"), "<p>Without one of the")])
def test_only_a_panel_of_several_has_ranks_without_one(make_run: MakeRun, judges: tuple[str, ...], said: str) -> None:
    assert said in page_of(make_run(Shape(judges=judges)))


def test_a_dimension_from_one_generation_call_leaves_the_errors_unknown(work: Work) -> None:
    dimension, other = work.rubrics
    tests = [replace(test, call="one") for test in work.run.read(ChosenTest, f"tests/{dimension}.parquet")]
    work.run.write(ChosenTest, f"tests/{dimension}.parquet", tests)
    rows = list(generalisability(summary_of(work)))
    for name in (OVERALL, dimension):
        for row in designs(rows, name).values():
            assert (row.mean_error, row.difference_error, row.with_judges_error) == (None, None, None)
    assert designs(rows, other)[AS_IT_IS].difference_error is not None
    page = " ".join(page_of(work).split())
    assert "That is unknown: one generation call made all tests, at least in one dimension." in page
    assert "</b>* (interval unknown: one generation call made all tests of a dimension): 1 is perfect" in page
