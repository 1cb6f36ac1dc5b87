"""Rates of issues against counts by hand, scipy's corrections and brute force."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.rates import IssueRate, RatesBeside
from hab_ray.analysis.signflips import p_among, p_of_mean
from hab_ray.analysis.tables.issues import issues
from hab_ray.rows import State, Verdict
from hab_ray.stages.views import verdicts_file
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, page_of, summary_of

DIMENSION, JUDGES, TESTS = "correct_misinformation", ("strict", "mild"), 8
# Of each subject by each judge: the issues of the answer to each test; None where the verdict could not be read.
NAMED: dict[tuple[str, str], list[str | None]] = {
    ("alpha", "strict"): ["A", "A", "A", "A", "F", "", "A", None],
    ("alpha", "mild"): ["A", "A", "", "A", "", "", "A", "A"],
    ("beta", "strict"): ["", "", "", "F", "", "", "", ""],
    ("beta", "mild"): ["", "", "", "", "", "", "", ""],
}


def planted(work: Work) -> list[IssueRate]:
    for (subject, judge), named in NAMED.items():
        file = verdicts_file(judge, subject, DIMENSION)
        rows = work.run.read(Verdict, file)
        work.run.write(Verdict, file, [_naming(row, given) for row, given in zip(rows, named, strict=True)])
    return list(issues(summary_of(work)))


def _naming(row: Verdict, named: str | None) -> Verdict:
    if named is None:
        return replace(row, state=State.UNREADABLE, score=None, issues=None)
    return replace(row, issues=tuple(named), score=10.0)


@pytest.fixture
def work(make_run: MakeRun) -> Work:
    return make_run(Shape(judges=JUDGES, dimensions=(DIMENSION,), tests=TESTS))


def row_of(rows: list[IssueRate], subject: str, judge: str, issue: str) -> IssueRate:
    (found,) = [row for row in rows if (row.subject, row.judge, row.issue) == (subject, judge, issue)]
    return found


def test_rates_are_over_the_answers_whose_issues_are_known(work: Work) -> None:
    rows = planted(work)
    strict, mild = row_of(rows, "alpha", "strict", "A"), row_of(rows, "alpha", "mild", "A")
    assert (strict.rate, strict.answers) == (5 / 7, 7)
    assert (mild.rate, mild.answers) == (5 / 8, 8)
    exact = stats.binomtest(5, 8).proportion_ci(0.95, "exact")
    by_t = stats.t.interval(0.95, 7, 5 / 8, np.std([1] * 5 + [0] * 3, ddof=1) / 8**0.5)
    assert mild.low == pytest.approx(min(exact.low, by_t[0]), abs=1e-9)
    assert mild.high == pytest.approx(max(exact.high, min(1.0, by_t[1])), abs=1e-9)
    panel = row_of(rows, "alpha", PANEL, "A")
    assert panel.rate == pytest.approx(4.5 / 7) and panel.answers == 7
    assert len(rows) == 2 * 3 * 6


def test_the_points_lost_are_shares_of_all_deductions(work: Work) -> None:
    rows = planted(work)
    deductions = {issue.letter: issue.deduction for issue in work.rubrics[DIMENSION].judging.issues}
    a, f = 5 * deductions["A"], 1 * deductions["F"]
    assert row_of(rows, "alpha", "strict", "A").lost == pytest.approx(a / (a + f))
    assert row_of(rows, "alpha", "strict", "F").lost == pytest.approx(f / (a + f))
    assert row_of(rows, "beta", "mild", "A").lost is None and row_of(rows, "beta", "strict", "F").lost == 1.0


def test_a_subject_is_compared_with_the_others_on_the_same_tests(work: Work) -> None:
    rows = planted(work)
    found = row_of(rows, "alpha", PANEL, "A")
    assert found.others == 0.0
    assert found.p == pytest.approx(counted([np.array([1, 1, 0.5, 1, 0, 0, 1])]), abs=1e-12)
    of_panel = [row for row in rows if row.judge == PANEL]
    assert [row.q for row in of_panel] == pytest.approx(
        list(stats.false_discovery_control([row.p or 0.0 for row in of_panel])), abs=1e-12
    )
    assert all(row.p is None for row in rows if row.judge != PANEL)


def test_one_of_several_is_compared_as_if_it_might_be_any_of_them() -> None:
    """Against every way to draw it in each call; who lacks a test of a call of the subject's is not drawn there."""
    random = np.random.default_rng(2)
    shares = random.integers(0, 3, (4, 10, 1)) / 2
    shares[1, 2] = shares[0, 7] = np.nan
    calls = ["x", "x", "y", "y", "z", "z", "u", "u", "u", "v"]
    compared = RatesBeside(0, shares, calls)
    asked = [test for test in range(10) if test != 7]
    drawn = []
    for call in dict.fromkeys(calls):
        tests = [test for test in asked if calls[test] == call]
        sums = [float(shares[who, tests, 0].sum()) for who in range(4)]
        drawn.append([each for each in sums if not np.isnan(each)])
    assert [len(each) for each in drawn] == [4, 3, 4, 4, 4]
    expected, own = sum(map(np.mean, drawn)), float(shares[0, asked, 0].sum())
    every = [abs(sum(each) - expected) >= abs(own - expected) - 1e-9 for each in product(*drawn)]
    assert compared.p(0) == pytest.approx(np.mean(every), abs=1e-12)
    means = [np.nanmean(shares[1:, test, 0]) for test in asked]
    assert compared.others(0) == pytest.approx(np.mean(means))


def test_one_of_several_in_many_different_calls_is_compared_exactly() -> None:
    """Against the convolution of 150 calls."""
    random = np.random.default_rng(4)
    steps = random.integers(0, 21, (3, 150))
    chances = np.ones(1)
    for call in steps.T:
        chances = np.convolve(chances, np.bincount(call, minlength=21) / 3)
    mean, own = steps.sum() / 3, steps[0].sum()
    expected = chances[np.abs(np.arange(len(chances)) - mean) >= abs(own - mean) - 1e-6].sum()
    assert p_among(0, steps / 20, np.ones(steps.shape, dtype=np.bool_)) == pytest.approx(expected, abs=1e-12)


def test_rates_of_subjects_that_do_not_differ_are_seldom_told_apart() -> None:
    """Rare issues and many subjects: flipping the signs of skewed differences finds one in every third sweep."""
    random, found = np.random.default_rng(3), 0
    for _ in range(60):
        hard = random.beta(0.1, 1.9, (50, 3))
        shares = (random.random((12, 50, 3)) < hard).astype(np.float64)
        ps = [
            RatesBeside(own, shares, [str(at) for at in range(50)]).p(at) or 0 for own in range(12) for at in range(3)
        ]
        found += min(stats.false_discovery_control(ps)) <= 0.05
    assert found <= 8


@pytest.mark.parametrize("unit", [10, 30, 7, 600])
def test_sign_flips_are_those_of_every_sign(unit: int) -> None:
    random = np.random.default_rng(unit)
    for _ in range(4):
        sums = random.integers(-10, 11, 11) / unit
        assert p_of_mean([sums], [1]) == pytest.approx(counted([sums]), abs=1e-9)
    assert p_of_mean([np.zeros(5)], [1]) == 1.0 and p_of_mean([np.ones(12)], [1]) == pytest.approx(2 / 4096, abs=1e-15)
    assert 0 < p_of_mean([np.ones(3000)], [1]) < 1e-15


def test_what_is_on_no_lattice_is_rounded_a_little() -> None:
    random = np.random.default_rng(3)
    sums = random.normal(size=12)
    assert p_of_mean([sums], [1]) == pytest.approx(counted([sums]), abs=3 / 2**11)
    first, second = random.integers(-10, 11, 14) / 10, random.integers(-10, 11, 8) / np.pi
    found = p_of_mean([first, second], [14, 8])
    assert found == pytest.approx(counted([first / 14, second / 8]), abs=1e-3)


def counted(parts: list[np.typing.NDArray[np.float64]]) -> float:
    """The p-value of the parts' sum by going through all signs, without the tests' own code."""
    totals = np.array([0.0])
    for each in np.concatenate(parts):
        totals = (totals[:, None] + [each, -each]).ravel()
    return float(np.mean(np.abs(totals) >= abs(np.concatenate(parts).sum()) - 1e-10))


@pytest.mark.parametrize("tests", [(12, 11), (7, 5), (3, 4, 5), (497, 491, 499)])
@pytest.mark.parametrize("unit", [10, 30])
def test_sums_that_equal_the_observed_one_count_with_other_numbers_of_tests(tests: tuple[int, ...], unit: int) -> None:
    """Parts of 12 and 11 tests have a lattice of 1/1320; rounding to another loses ties with the observed sum."""
    random = np.random.default_rng(unit)
    for _ in range(20):
        sums = [random.integers(-10, 11, min(size, 16 // len(tests))) / unit for size in tests]
        parts = [part / size for part, size in zip(sums, tests, strict=True)]
        assert p_of_mean(sums, tests) == pytest.approx(counted(parts), abs=1e-12)


def test_the_page_says_it_in_words_with_an_answer_to_open(work: Work) -> None:
    planted(work)
    html = page_of(work)
    section = html.split('aria-labelledby="issues"')[1].split("</section>")[0]
    said = " ".join(section.replace("<b>", "").replace("</b>", "").split())
    rubric = work.rubrics[DIMENSION]
    assert f"{rubric.title} F: {rubric.judging.issues[-1].text}" in said
    assert "costliest for 1 of 2 subjects, 100 % of the points lost" in said
    assert '<span>alpha</span></th><td>A</td> <td class="number">97 %</td><td class="number">7</td>' in said
    assert said.count("An answer of") == 2 and "An answer of alpha with A: test <code>" in said
    assert f"An answer of beta with F: {rubric.judging.issues[-1].text}" in said
    own, picked = (
        set(re.findall("Test <code>(.*?)</code>", part))
        for part in (section, html.split('<article class="test example">')[0].split('id="transcripts-1"')[1])
    )
    assert own and picked and not own & picked, "each transcript stands once on the page"
    assert section.index("<summary>") < section.index('class="text"')
    assert html.index('id="leaderboard"') < html.index('id="issues"') < html.index('id="judges"')


def test_equal_shares_are_no_range(work: Work) -> None:
    for subject, judge in NAMED:
        file = verdicts_file(judge, subject, DIMENSION)
        work.run.write(Verdict, file, [_naming(row, "A") for row in work.run.read(Verdict, file)])
    assert "costliest for 2 of 2 subjects, 100 % of the points lost" in page_of(work)
