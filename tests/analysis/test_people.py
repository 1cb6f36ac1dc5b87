"""People beside judges, against the reference libraries, closed forms and what was planted."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import krippendorff
import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.metrics import cohen_kappa_score

from benchmarks.people import RaterDesign, measure
from hab_ray.analysis.rating.statistics import (
    FEW_RATERS,
    Estimate,
    Rated,
    alpha_among,
    alpha_with,
    difference,
    kappa_with,
)
from hab_ray.analysis.tables.trust.people import PeopleAgreed, PeopleShown, few_raters, people, sentence
from hab_ray.rows import Rater, State, Verdict
from hab_ray.stages.replies.verdicts import score
from hab_ray.stages.views import verdicts_file
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, revise, summary_of, verdict_files

DIMENSIONS, TESTS = ("correct_misinformation", "encourage_learning"), 30
JUDGES, SUBJECTS = ("strict", "mild"), ("alpha", "beta")
PEOPLE = ("R1", "R2", "R10")


def drawn(raters: int, answers: int, seed: int = 0, missing: float = 0.2) -> Rated:
    """Tenths around a quality of each answer, two answers to a test, some ratings missing."""
    random = np.random.default_rng(seed)
    quality = random.random(answers)
    given = np.round(np.clip(quality + random.normal(scale=0.2, size=(raters + 1, answers)), 0, 1) * 10) / 10
    people = np.where(random.random((raters, answers)) < missing, np.nan, given[1:])
    return Rated(people, given[0], np.arange(answers) // 2)


def test_values_are_those_of_the_references() -> None:
    part = drawn(4, 80)
    expected = krippendorff.alpha(part.raters, level_of_measurement="interval")
    assert alpha_among([part]).value == pytest.approx(expected, abs=1e-9)
    both = np.stack([part.judge, np.nanmean(part.raters, axis=0)])
    expected = krippendorff.alpha(both, level_of_measurement="interval")
    assert alpha_with([part]).value == pytest.approx(expected, abs=1e-9)
    named = Rated(
        np.where(np.isnan(part.raters), np.nan, part.raters > 0.4), (part.judge > 0.4).astype(np.float64), part.tests
    )
    share = np.nanmean(named.raters, axis=0)
    assert (share == 0.5).any(), "ties among people, broken once either way"
    kappa = cohen_kappa_score(np.tile(named.judge == 1, 2), np.concatenate([share > 0.5, share >= 0.5]))
    assert kappa_with(named).value == pytest.approx(kappa, abs=1e-9)


def test_a_panel_of_two_that_disagrees_counts_half_on_an_issue() -> None:
    people = np.array([[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]] * 3)
    panel = Rated(people, np.array([1.0, 0.0, 0.5, 0.5, 0.0, 0.5]), np.arange(6))
    assert difference([panel]).value == pytest.approx(2.5 / 6 - 3 / 6)
    expected = cohen_kappa_score([1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0], np.tile(people[0] == 1, 2))
    assert kappa_with(panel).value == pytest.approx(expected)


@pytest.mark.parametrize("side", [0.0, 1.0])
def test_a_side_that_never_or_always_names_an_issue_leaves_no_kappa(side: float) -> None:
    some = np.array([0.0, 1.0] * 30)
    people = Rated(np.full((3, 60), side), some, np.arange(60))
    judges = Rated(np.tile(some, (3, 1)), np.full(60, side), np.arange(60))
    for part in (people, judges):
        found = kappa_with(part)
        assert (found.value, found.low, found.high, found.answers) == (None, None, None, 60)


def test_over_several_dimensions_chance_is_taken_within_each() -> None:
    one, other = drawn(3, 40, 1, 0.0), drawn(3, 60, 2, 0.0)
    found = alpha_among([one, replace(other, raters=other.raters / 10)])
    alphas = [krippendorff.alpha(p.raters, level_of_measurement="interval") for p in (one, other)]
    assert found.value is not None and min(alphas) - 0.02 < found.value < max(alphas) + 0.02
    pooled = np.concatenate([one.raters, other.raters / 10], axis=1)
    assert found.value < krippendorff.alpha(pooled, level_of_measurement="interval") - 0.05
    assert (found.answers, found.raters) == (100, 3)


def test_a_difference_is_clustered_by_rater_and_by_test() -> None:
    """Against the sums over every pair of ratings that share a rater or a test."""
    part = drawn(5, 24)
    part = replace(part, raters=part.raters + np.array([[-0.2], [-0.1], [0.0], [0.1], [0.3]]))
    found = difference([part])
    steps = part.judge - part.raters
    cells = [(r, int(part.tests[a]), steps[r, a]) for r, a in np.argwhere(~np.isnan(steps))]
    mean, n = float(np.mean([v for _, _, v in cells])), len(cells)

    def summed(shares: Callable[[tuple[int, int, float], tuple[int, int, float]], bool]) -> float:
        return float(sum((a[2] - mean) * (b[2] - mean) for a, b in product(cells, cells) if shares(a, b))) / n**2

    tests = len(set(part.tests.tolist()))
    variance = summed(lambda a, b: a[0] == b[0]) * 5 / 4 + (
        summed(lambda a, b: a[1] == b[1]) - summed(lambda a, b: a[:2] == b[:2])
    ) * tests / (tests - 1)
    reach = student.ppf(0.975, 4) * np.sqrt(variance)
    assert (found.value, found.low, found.high) == pytest.approx((mean, mean - reach, mean + reach), abs=1e-9)


@pytest.mark.parametrize("statistic", [alpha_among, alpha_with, difference])
def test_a_dimension_with_one_rated_test_leaves_no_interval(statistic: Callable[[list[Rated]], Estimate]) -> None:
    many, one = drawn(5, 60, missing=0.0), drawn(5, 2, 1, 0.0)
    assert statistic([many]).low is not None and len(set(one.tests.tolist())) == 1
    found = statistic([many, one])
    assert found.value is not None and (found.low, found.high, found.answers) == (None, None, 62)


def test_a_dimension_rated_by_one_of_several_leaves_the_difference_without_interval() -> None:
    both, one = drawn(2, 60), drawn(2, 40, 1)
    alone = replace(one, raters=np.stack([one.raters[0], np.full(40, np.nan)]))
    assert difference([alone]).low is not None and difference([both.of([0]), one.of([0])]).low is not None
    found = difference([both, alone])
    assert found.value is not None and found.raters == 2 and found.low is None and found.high is None


def test_equal_answers_do_not_show_their_error() -> None:
    part = Rated(np.array([[0.1, 0.4, 0.8]]), np.array([0.3, 0.6, 1.0]), np.arange(3))
    for found, value in ((difference([part]), 0.2), (alpha_with([replace(part, judge=part.raters[0])]), 1.0)):
        assert found.value == pytest.approx(value) and (found.low, found.high) == (None, None)


def test_an_overall_difference_has_the_error_of_independent_dimensions() -> None:
    """Of one rater: each dimension's variance is that of the mean of its own tests, two of them or thirty."""
    parts = [drawn(1, 60, missing=0.0), drawn(1, 4, 1, 0.0)]
    found = difference(parts)
    means = [(part.judge - part.raters[0]).reshape(-1, 2).mean(axis=1) for part in parts]
    reach = student.ppf(0.975, 30) * np.sqrt(sum(own.var(ddof=1) / len(own) for own in means)) / 2
    value = float(np.mean([own.mean() for own in means]))
    assert (found.value, found.low, found.high) == pytest.approx((value, value - reach, value + reach), abs=1e-9)


def test_one_rater_leaves_the_interval_to_the_tests_and_two_are_left_out_in_turn() -> None:
    part = drawn(2, 60, missing=0.0)
    alone = difference([part.of([0])])
    by_test = np.array([(part.judge - part.raters[0])[part.tests == test].mean() for test in range(30)])
    reach = student.ppf(0.975, 29) * by_test.std(ddof=1) / np.sqrt(30)
    assert alone.low == pytest.approx(by_test.mean() - reach, abs=1e-9) and alone.raters == 1
    both = alpha_with([part])
    assert both.low is not None and both.high is not None and both.low < both.high and both.raters == 2


def test_nothing_is_said_of_nothing() -> None:
    none = Rated(np.full((2, 3), np.nan), np.array([0.1, 0.2, 0.3]), np.arange(3))
    for found in (alpha_among([none]), alpha_with([none]), kappa_with(none), difference([none])):
        assert (found.value, found.low, found.high, found.answers, found.raters) == (None, None, None, 0, 0)
    same = Rated(np.ones((2, 3)), np.ones(3), np.arange(3))
    assert alpha_among([same]).value is None and difference([same]).value == 0


@pytest.mark.parametrize("design", [RaterDesign(5, 150, 0.1), RaterDesign(3, 25, 0.1)], ids=str)
def test_intervals_cover_where_raters_are_severe(design: RaterDesign) -> None:
    """The tables of docs/measurement.md, with fewer draws: a shortfall that matters would show."""
    found = measure(design, 200)
    assert found.by_test < 0.9
    assert found.difference >= 0.92 and found.beside >= 0.92
    assert found.among >= 0.92 or design.raters < FEW_RATERS


def rated(work: Work, bias: dict[str, int]) -> None:
    """Has people say what judge `strict` says, less their bias, on every second answer; and of issues just the same."""
    for subject, dimension in product(SUBJECTS, DIMENSIONS):
        rows = work.run.read(Verdict, verdicts_file("strict", subject, dimension))
        for name in PEOPLE:
            own = [
                replace(row, judge=name, kind=Rater.PERSON, score=max(0.0, (row.score or 0) - bias[name]), reply_key="")
                for row in rows[::2]
            ]
            lost = replace(own[0], state=State.FAILED, score=None, issues=None)
            work.run.write(Verdict, verdicts_file(name, subject, dimension), [lost, *own[1:]])


def table(work: Work) -> list[PeopleAgreed]:
    return list(people(summary_of(work)))


def chosen(rows: list[PeopleAgreed], *what: str | None) -> PeopleAgreed:
    (row,) = [row for row in rows if (row.dimension, row.issue, row.judge, row.rater) == what]
    return row


@pytest.fixture
def work(make_run: MakeRun) -> Work:
    return make_run(Shape(subjects=SUBJECTS, judges=JUDGES, dimensions=DIMENSIONS, tests=TESTS))


def test_a_planted_bias_comes_back_beside_each_judge_and_the_panel(work: Work) -> None:
    low = {name: 0 for name in PEOPLE}
    given = {"strict": 5.0, "mild": 7.0}
    revise(work, Verdict, lambda row: replace(row, score=given[row.judge]), *verdict_files(work))
    rated(work, low | {"R1": 1, "R2": 2, "R10": 3})
    rows = table(work)
    for dimension in ("overall", *DIMENSIONS):
        for judge, ahead in (("strict", 0.2), ("mild", 0.4), ("panel", 0.3)):
            assert chosen(rows, dimension, None, judge, None).difference == pytest.approx(ahead)
            single = [chosen(rows, dimension, None, judge, name).difference for name in PEOPLE]
            assert single == pytest.approx([ahead - 0.1, ahead, ahead + 0.1])
    whole = chosen(rows, "overall", None, "panel", None)
    reach = student.ppf(0.975, 2) * np.sqrt(0.02 / 9 * 3 / 2)
    assert whole.answers == 56 and whole.raters == 3 == few_raters(rows) and not whole.reliable and whole.has_enough
    assert few_raters([*rows, replace(whole, raters=FEW_RATERS)]) is None
    assert (whole.difference_low, whole.difference_high) == pytest.approx((0.3 - reach, 0.3 + reach))
    assert [row.rater for row in rows if row.judge == "strict" and row.dimension == "overall"] == [None, *PEOPLE]


def test_issues_are_compared_by_letter(work: Work) -> None:
    rated(work, {name: 0 for name in PEOPLE})
    rows = table(work)
    letters = work.rubrics[DIMENSIONS[0]].issue_letters()
    for letter in letters:
        assert chosen(rows, DIMENSIONS[0], letter, None, None).agreement == pytest.approx(1.0)
        own = chosen(rows, DIMENSIONS[0], letter, "strict", None)
        assert (own.agreement, own.difference) == pytest.approx((1.0, 0.0)) and own.raters == 3
        other = chosen(rows, DIMENSIONS[0], letter, "mild", "R2")
        assert other.agreement == pytest.approx(kappa(work, letter)) and other.answers == 28
        gap = chosen(rows, DIMENSIONS[0], letter, "mild", None).difference
        assert gap is not None
        assert chosen(rows, DIMENSIONS[0], letter, "panel", None).difference == pytest.approx(gap / 2)
    rubric = work.rubrics[DIMENSIONS[0]]
    verdicts = [row for s in SUBJECTS for row in work.run.read(Verdict, verdicts_file("strict", s, DIMENSIONS[0]))]
    assert all(row.score == score(rubric, row.issues or ()) for row in verdicts)


def kappa(work: Work, letter: str) -> float:
    """Of judges strict and mild on what people rated."""
    named: list[list[bool]] = []
    for judge in JUDGES:
        files = [work.run.read(Verdict, verdicts_file(judge, subject, DIMENSIONS[0])) for subject in SUBJECTS]
        named.append([letter in (row.issues or ()) for rows in files for row in rows[2::2]])
    return float(cohen_kappa_score(*named))


def test_without_people_there_is_no_table(work: Work) -> None:
    assert table(work) == [] and people.shown(summary_of(work)) is None


Ends = tuple[float | None, float | None, float | None]


A_MEAN = "A mean of several people is easier to agree with than one person"


def said_of(among: Ends, beside: Ends, raters: int, judge: str) -> str:
    answers = 0 if among[0] is None else 60
    first = PeopleAgreed("overall", None, None, None, answers, raters, None, *among, None, None, None, False)
    last = replace(first, judge=judge, agreement=beside[0], low=beside[1], high=beside[2])
    return sentence([first, replace(first, judge="first", agreement=0.9), last])


@pytest.mark.parametrize(
    ("among", "beside", "raters", "said"),
    [
        (
            (0.5, 0.4, 0.6),
            (0.7, 0.61, 0.8),
            7,
            "The panel agrees better with people's mean scores (alpha 0.70, 95 % interval 0.61 to 0.80) than people "
            f"agree with each other (alpha 0.50, 95 % interval 0.40 to 0.60). {A_MEAN}.",
        ),
        (
            (0.996, 0.61, 0.998),
            (0.5, 0.004, 0.6),
            3,
            "The panel agrees less with people's mean scores (alpha 0.50, 95 % interval 0.004 to 0.60) than these 3 "
            f"people agree with each other (alpha 0.996, 95 % interval 0.61 to 0.998). {A_MEAN}.",
        ),
        (
            (0.3, 0.2, 0.6),
            (0.5, 0.4, 0.8),
            7,
            "Whether the panel agrees better with people's mean scores (alpha 0.50, 95 % interval 0.40 to 0.80) than "
            "people with each other (alpha 0.30, 95 % interval 0.20 to 0.60) is open: the intervals overlap. "
            f"{A_MEAN}. Below 0.4, people cannot check the judges.",
        ),
        (
            (0.5, None, None),
            (0.7, 0.6, 0.8),
            7,
            "Whether the panel agrees better with people's mean scores (alpha 0.70, 95 % interval 0.60 to 0.80) than "
            f"people with each other (alpha 0.50) is open: an interval is unknown. {A_MEAN}.",
        ),
        (
            (None, None, None),
            (0.7, 0.6, 0.8),
            1,
            "The agreement of the panel with the only rater's scores is alpha 0.70, 95 % interval 0.60 to 0.80; that "
            "of people with each other is unknown: no two rated the same answer.",
        ),
        (
            (0.5, 0.4, 0.6),
            (None, None, None),
            7,
            "The agreement of the panel with people is unknown: too few scores, or all are equal.",
        ),
    ],
)
def test_a_sentence_says_no_more_than_the_intervals(among: Ends, beside: Ends, raters: int, said: str) -> None:
    assert said_of(among, beside, raters, "panel") == said
    assert said_of(among, beside, raters, "lab/model") == said.replace("The panel", "lab/model").replace(
        "the panel", "lab/model"
    )


def test_the_page_marks_lines_with_few_answers(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    rated(work, {name: 0 for name in PEOPLE})
    shown = people.shown(summary_of(work))
    assert isinstance(shown, PeopleShown)
    assert {row.dimension for row in shown.lines} == {"overall", *DIMENSIONS}
    assert shown.sentence.startswith(("Whether the", "The panel"))
    assert shown.has_marks, "28 answers in each dimension"
    for least in ("MIN_ANSWERS", "MIN_NAMED"):
        monkeypatch.setattr(f"hab_ray.analysis.tables.trust.people.{least}", 0)
    shown = people.shown(summary_of(work))
    assert isinstance(shown, PeopleShown) and not shown.has_marks
