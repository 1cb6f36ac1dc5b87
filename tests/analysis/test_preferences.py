"""What judges are partial to is recovered where it was planted, and nowhere else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import t as student_t

from hab_ray.analysis.evidence.answers import refuses
from hab_ray.analysis.intervals import FEW_CALLS, excludes_zero
from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.signs.judging import partial_judges
from hab_ray.analysis.tables.trust.preferences import (
    GENERATOR,
    ITSELF,
    LENGTH,
    REFUSALS,
    VENDOR,
    Preference,
    preferences,
    slope,
)
from hab_ray.rows import Response, Verdict
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, page_of, summary_of

DIMENSIONS, TESTS = ("ask_clarifying_questions", "correct_misinformation"), 60
JUDGES = ("acme/large", "bolt/large", "other/large")
SUBJECTS = ("acme/large", "acme/small", "bolt/large", "free/one", "free/two")
REFUSAL = "I'm sorry, but I can't help with that request."


@dataclass(frozen=True)
class Planted:
    """What judges add to an answer's points: to their own, to their vendor's, per doubling, to refusals."""

    own: Mapping[str, float]
    kin: Mapping[str, float]
    doubling: Mapping[str, float]
    refusal: Mapping[str, float]


NOTHING = Planted({}, {}, {}, {})


def plant(work: Work, planted: Planted) -> dict[tuple[str, str, str, str], float]:
    """Scores of 0 to 10 with a judge's severity, a subject's level and noise, and what is planted; by cell."""
    random = Random(5)
    marks: dict[tuple[str, str, str, str], float] = {}
    for dimension in work.rubrics:
        for at, subject in enumerate(work.sweep.subject_names):
            file = responses_file(subject, dimension)
            refused = [random.random() < 0.2 for _ in range(TESTS)]
            doublings = [random.choice((2, 4, 6)) for _ in range(TESTS)]
            rows = [
                replace(row, text=(f"{REFUSAL} " if is_refusal else "x" * (len(REFUSAL) + 1)) * 2 ** (n - 2))
                for row, is_refusal, n in zip(work.run.read(Response, file), refused, doublings, strict=True)
            ]
            work.run.write(Response, file, rows)
            truth = [4.0 + 0.2 * at + random.gauss(0, 0.5) for _ in range(TESTS)]
            for severity, judge in enumerate(JUDGES):
                verdicts = work.run.read(Verdict, verdicts_file(judge, subject, dimension))
                given = []
                for number, verdict in enumerate(verdicts):
                    points = truth[number] - 0.5 * severity + random.gauss(0, 0.2)
                    points += planted.own.get(judge, 0) if judge == subject else 0
                    is_kin = judge != subject and judge.split("/")[0] == subject.split("/")[0]
                    points += planted.kin.get(judge, 0) if is_kin else 0
                    points += planted.doubling.get(judge, 0) * doublings[number]
                    points += planted.refusal.get(judge, 0) if refused[number] else 0
                    given.append(replace(verdict, score=points))
                    marks[judge, subject, dimension, verdict.test_id] = points / 10
                work.run.write(Verdict, verdicts_file(judge, subject, dimension), given)
    return marks


@pytest.fixture
def work(make_run: MakeRun) -> Work:
    return make_run(Shape(subjects=SUBJECTS, judges=JUDGES, dimensions=DIMENSIONS, tests=TESTS))


def found(work: Work) -> list[Preference]:
    return list(preferences(summary_of(work)))


def only(rows: list[Preference], kind: str, judge: str, dimension: str = OVERALL, other: str = "") -> Preference:
    (row,) = [r for r in rows if (r.kind, r.judge, r.dimension) == (kind, judge, dimension) and other in r.others]
    return row


def near(row: Preference, planted: float) -> bool:
    assert row.value is not None and row.low is not None and row.high is not None
    return row.low <= planted <= row.high and abs(row.value - planted) < 0.02 and row.is_significant


def test_planted_preferences_are_recovered_apart_from_one_another(work: Work) -> None:
    planted = Planted({"acme/large": 2.0, "bolt/large": -1.0}, {"acme/large": 1.0}, {"bolt/large": 0.3}, {})
    plant(work, planted)
    rows = found(work)
    assert near(only(rows, ITSELF, "acme/large"), 0.2) and near(only(rows, ITSELF, "bolt/large"), -0.1)
    assert near(only(rows, VENDOR, "acme/large"), 0.1)
    assert near(only(rows, LENGTH, "bolt/large", other="other/large"), 0.03)
    assert near(only(rows, LENGTH, "acme/large", other="bolt/large"), -0.03)
    assert not only(rows, LENGTH, "acme/large", other="other/large").is_significant
    assert not any(row.is_significant for row in rows if row.kind == REFUSALS and row.dimension == OVERALL)
    (generator,) = [row for row in rows if row.kind == GENERATOR]
    assert generator.value is None and "not recorded" in generator.why
    assert "not corrected for their number: without any bias, about one in 20" in " ".join(page_of(work).split())


def test_nothing_is_found_where_nothing_is_planted_but_severity(work: Work) -> None:
    plant(work, NOTHING)
    rows = [row for row in found(work) if row.dimension == OVERALL]
    assert {row.kind for row in rows} == {ITSELF, VENDOR, LENGTH, REFUSALS, GENERATOR}
    assert not [row for row in rows if row.is_significant]
    assert "one in 20" not in page_of(work)


def test_refusals_are_those_of_each_judge(work: Work) -> None:
    marks = plant(work, replace(NOTHING, refusal={"other/large": -3.0}))
    row = only(found(work), REFUSALS, "other/large")
    assert near(row, -0.3) and 0.1 < row.answers / len(marks) * len(JUDGES) < 0.3
    assert row.mean is not None and row.mean < 0.2


def test_own_answers_are_compared_with_those_of_nobodys_kin_on_the_same_tests(work: Work) -> None:
    marks = plant(work, replace(NOTHING, own={"acme/large": 2.0, "bolt/large": 2.0}))
    rows = found(work)
    by_dimension = []
    for dimension in DIMENSIONS:
        steps = []
        for number in range(TESTS):
            test = f"{dimension}-{number:03d}"

            def ahead(subject: str, dimension: str = dimension, test: str = test) -> float:
                others = fmean(marks[judge, subject, dimension, test] for judge in JUDGES[1:])
                return marks[JUDGES[0], subject, dimension, test] - others

            steps.append(ahead("acme/large") - fmean(map(ahead, ("free/one", "free/two"))))
        row = only(rows, ITSELF, "acme/large", dimension)
        assert row.value == pytest.approx(fmean(steps), abs=1e-9) and row.answers == TESTS
        by_dimension.append(fmean(steps))
    assert only(rows, ITSELF, "acme/large").value == pytest.approx(fmean(by_dimension), abs=1e-9)


def test_answers_that_are_not_compared_are_neither_counted_nor_in_the_mean(work: Work) -> None:
    """Another judge lacks the subject's tests 0 to 9, and no stranger's tests 10 to 19 are marked by all judges."""
    marks, dimension = plant(work, NOTHING), DIMENSIONS[0]
    lost = (("bolt/large", "acme/large", 0, 10), *((judge, "free/one", 10, 20) for judge in JUDGES))
    for judge, subject, first, last in (*lost, ("other/large", "free/two", 10, 20)):
        file = verdicts_file(judge, subject, dimension)
        given = work.run.read(Verdict, file)
        work.run.write(Verdict, file, given[:first] + given[last:])
    rows = found(work)
    row, other, overall = (only(rows, ITSELF, "acme/large", name) for name in (*DIMENSIONS, OVERALL))
    own = [marks["acme/large", "acme/large", dimension, f"{dimension}-{number:03d}"] for number in range(20, TESTS)]
    assert row.answers == len(own) and row.mean == pytest.approx(fmean(own))
    assert other.answers == TESTS and overall.answers == TESTS + len(own)


def test_what_cannot_be_known_says_what_it_would_take(make_run: MakeRun) -> None:
    rows = found(make_run(Shape(subjects=("acme/large", "free/one"), judges=("acme/large",), dimensions=DIMENSIONS)))
    (row,) = rows
    assert (row.kind, row.value) == (ITSELF, None) and "no judge of another vendor" in row.why
    both = make_run(Shape(subjects=JUDGES[:2], judges=JUDGES[:2], dimensions=DIMENSIONS))
    own = [row for row in found(both) if row.kind == ITSELF]
    assert len(own) == 2 and all("no subject unrelated to" in row.why for row in own)


def test_a_dimension_that_is_not_in_the_overall_difference_is_named(work: Work) -> None:
    work.run.write(Verdict, verdicts_file("acme/large", "acme/large", DIMENSIONS[0]), [])
    own, measured = (only(found(work), ITSELF, "acme/large", name) for name in (OVERALL, DIMENSIONS[1]))
    assert own.value == measured.value
    title = work.rubrics[DIMENSIONS[0]].title
    told = f"not measured in {title}, and not in the overall difference, because there is no test on which these judges"
    assert f"{told} scored such an answer and an unrelated subject&#39;s." in " ".join(page_of(work).split())


def test_a_judge_that_is_no_subjects_kin_alone_has_no_preference(make_run: MakeRun) -> None:
    assert found(make_run(Shape(dimensions=DIMENSIONS))) == []


def test_the_slope_is_that_of_a_regression_with_dummies_and_its_bias_reduced_sandwich() -> None:
    """Each cluster's residuals are multiplied by the inverse root of I - H, where H is the regressor's hat matrix."""
    random = np.random.default_rng(4)
    count = 240
    groups, clusters = random.integers(0, 6, count), random.integers(0, 25, count)
    on = random.normal(size=count) + groups
    values = 0.4 * on + groups + random.normal(size=25)[clusters] + random.normal(size=count)
    dummies = np.column_stack([groups == g for g in range(6)]).astype(float)
    design = np.column_stack([on, dummies])
    beta, *_ = np.linalg.lstsq(design, values, rcond=None)
    left = values - design @ beta
    alone = on - dummies @ np.linalg.lstsq(dummies, on, rcond=None)[0]
    spread = alone @ alone
    meat, shares = 0.0, []
    for own in (clusters == c for c in range(25)):
        sizes, axes = np.linalg.eigh(np.eye(own.sum()) - np.outer(alone[own], alone[own]) / spread)
        meat += float(alone[own] @ (axes / np.sqrt(sizes)) @ axes.T @ left[own]) ** 2
        shares.append(alone[own] @ alone[own] / spread)
    error = float(np.sqrt(meat * count / (count - 6))) / spread
    row = slope(values, on, groups, clusters)
    assert row is not None and row.low is not None and row.high is not None
    reach = float(student_t.ppf(0.975, 1 / sum(share**2 for share in shares) - 1)) * error
    assert (row.mean, row.low, row.high) == pytest.approx((beta[0], beta[0] - reach, beta[0] + reach), abs=1e-9)
    assert slope(values, groups.astype(float), groups, clusters) is None


def false_slopes(subjects: int, tests: int, drawn: Callable[[np.random.Generator], np.ndarray]) -> float:
    """How many of 400 slopes of marks on what they do not depend on exclude 0."""
    random, found = np.random.default_rng(0), 0
    groups, clusters = np.repeat(np.arange(subjects), tests), np.tile(np.arange(tests), subjects)
    for _ in range(400):
        marks = np.round(random.normal(0, 0.2, subjects * tests), 1)
        row = slope(marks, drawn(random), groups, clusters)
        found += row is not None and excludes_zero(row.low, row.high)
    return found / 400


@pytest.mark.parametrize("refused", [1, 2, 5])
@pytest.mark.parametrize("refusing", [1, 4])
def test_few_refusals_of_many_answers_keep_the_level(refused: int, refusing: int) -> None:
    def drawn(random: np.random.Generator) -> np.ndarray:
        on = np.zeros((4, 150))
        for each in on[:refusing]:
            each[random.choice(150, refused, replace=False)] = 1
        return on.ravel()

    assert false_slopes(4, 150, drawn) <= 0.07


def test_one_very_short_answer_keeps_the_level() -> None:
    def drawn(random: np.random.Generator) -> np.ndarray:
        on = random.normal(9.6, 0.25, 4 * 12)
        on[random.integers(len(on))] -= 5
        return on

    assert false_slopes(4, 12, drawn) <= 0.07


def test_refusals_of_subjects_who_always_refuse_do_not_count_and_few_calls_show_nothing(make_run: MakeRun) -> None:
    """Of two subjects one refuses every test, the other those of `calls` calls, which a judge scores far lower."""
    dimension = DIMENSIONS[0]
    for calls, is_shown in ((FEW_CALLS - 1, False), (FEW_CALLS, True)):
        work = make_run(Shape(("free/one", "free/two"), JUDGES[:2], (dimension,), tests=TESTS))
        for subject, refused in (("free/one", calls), ("free/two", TESTS)):
            file = responses_file(subject, dimension)
            rows = work.run.read(Response, file)
            work.run.write(Response, file, [replace(row, text=REFUSAL) for row in rows[:refused]] + rows[refused:])
            for judge in JUDGES[:2]:
                file = verdicts_file(judge, subject, dimension)
                given = [
                    replace(row, score=(5 if judge == JUDGES[0] and at < refused else 8) + at % 2)
                    for at, row in enumerate(work.run.read(Verdict, file))
                ]
                work.run.write(Verdict, file, given)
        row = only(found(work), REFUSALS, JUDGES[0])
        assert row.value == pytest.approx(-0.3) and (row.answers, row.calls) == (calls, calls)
        assert (row.reliable, row.is_significant) == (is_shown, is_shown)
    assert "fewer than 10 with a refusal" in " ".join(page_of(work).split())


def test_a_page_without_a_measured_preference_does_not_say_that_there_is_none(make_run: MakeRun) -> None:
    work = make_run(Shape(subjects=("acme/large", "free/one"), judges=("acme/large",), dimensions=DIMENSIONS))
    page = " ".join(page_of(work).split())
    assert "No preference could be measured." in page and "None of 0" not in page


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (REFUSAL, True),
        ("I cannot assist you with this.", True),
        ("I\u2019m unable to help with that.", True),
        ("Sorry. I won't answer that question.", True),
        ("I must decline to continue.", True),
        ("I can't make this decision for you, but here is what to weigh.", False),
        ("I can't help but notice that the deadline is close.", False),
        ("I won't give the answer away: what have you tried?", False),
        ("Glad to help. " * 30 + REFUSAL, False),
    ],
)
def test_a_refusal_turns_the_request_down_at_once(text: str, expected: bool) -> None:
    assert refuses(text) == expected


@pytest.mark.parametrize(
    ("calls", "kind", "told"),
    [
        (FEW_CALLS, "prefers_itself", "+0.004 on the scale of 0 to 1 (95 % interval +0.001 to +0.007, uncorrected)"),
        (FEW_CALLS - 1, "judges_itself", "+0.004, which may be chance"),
    ],
)
def test_a_preference_is_reported_as_on_the_page_and_not_from_few_calls(calls: int, kind: str, told: str) -> None:
    row = Preference(ITSELF, "j", "k", OVERALL, 500, calls, 0.5, 0.004, 0.001, 0.007, calls >= FEW_CALLS, "")
    (found,) = partial_judges([row])
    assert found.kind == kind and told in found.detail
