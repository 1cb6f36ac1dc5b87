"""The shift of a judge, its interval, kappas and maps: exact on planted tables, covered in made repetitions."""

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from hab_ray.analysis.bridge import Compared, issue_shifts, score_maps, shifts
from hab_ray.analysis.intervals import gaffke, sums_by
from hab_ray.rehearse.figures import Item, figures_of
from hab_ray.rows import ScoreMap

REPETITIONS = 200
PLANTED = 0.06
MAX_ANSWERS = 20


def compared(random: np.random.Generator, tests: int, replicates: int = 1) -> Compared:
    """Tests that differ in difficulty, in how far the judges are apart (.06 on the mean), and in how many answers have.

    Tests with more answers are those on which the judges are further apart: a mean over answers would not be .06.
    """
    cell = Compared()
    for test in range(tests):
        apart = random.uniform(-0.14, 0.26)
        answers = int(random.integers(1, MAX_ANSWERS // 2)) + (MAX_ANSWERS // 2 if apart > PLANTED else 0)
        level = random.uniform(0.35, 0.65)
        for _ in range(answers):
            then = tenth(level + random.uniform(-0.1, 0.1), random)
            now = [tenth(then + apart + random.uniform(-0.1, 0.1), random) for _ in range(replicates)]
            cell.add(f"test-{test}", now, then)
    return cell


def tenth(value: float, random: np.random.Generator) -> float:
    """One of the two tenths beside a value, so that it is expected to be the value."""
    return float(np.floor(value * 10 + random.random())) / 10


def test_issues_are_counted_by_reading() -> None:
    cell = Compared()
    cell.add_issues("AB", ("A",), ("A", "B"))
    cell.add_issues("AB", (), ())
    (a, b) = issue_shifts("now", "then", {"d": cell})
    assert (a.issue, a.readings, a.now, a.then, a.kappa) == ("A", 2, 1, 1, 1.0)
    assert (b.issue, b.readings, b.now, b.then, b.kappa) == ("B", 2, 0, 1, 0.0)
    cell.add_issues("C", (), ())
    assert [*issue_shifts("now", "then", {"d": cell})][-1].kappa is None


def test_differences_that_are_equal_have_an_interval_all_the_same() -> None:
    cell = Compared()
    for answer, (now, then) in enumerate([(0.45, 0.35), (0.8, 0.7), (1 / 3 + 0.1, 1 / 3)]):
        cell.add(str(answer), [now], then)
    (found,) = shifts("now", "then", {"d": cell})
    assert found.difference == pytest.approx(0.1)
    assert (found.low, found.high) == pytest.approx(gaffke([0.1] * 3, -1.0), abs=1e-9)


def test_the_shift_is_the_mean_of_the_tests_with_an_interval() -> None:
    cell = Compared()
    for now, then in (([1.0], 0.5), ([0.5, 0.7], 0.6), ([0.6], 0.3)):
        cell.add("one", now, then)
    cell.add("two", [0.2], 0.3)
    cell.add("three", [0.3], 0.3)
    (found,) = shifts("now", "then", {"d": cell})
    one, two, three = Fraction(8, 30), Fraction(-1, 10), Fraction(0)
    mean = (one + two + three) / 3
    whole = figures_of([Item(one, 3, "one"), Item(two, 1, "two"), Item(three, 1, "three")], -1)
    assert (found.tests, found.answers, found.readings) == (3, 5, 6)
    assert found.difference == pytest.approx(float(mean), abs=1e-12)
    assert (found.low, found.high) == pytest.approx((whole.low, whole.high), abs=1e-9)
    assert found.equal == pytest.approx(1 / 6) and found.now is not None and found.then is not None
    assert found.now - found.then == pytest.approx(found.difference)


def test_without_a_test_there_is_nothing() -> None:
    (nothing,) = shifts("now", "then", {"d": Compared()})
    assert (nothing.answers, nothing.difference, nothing.equal, nothing.low) == (0, None, None, None)


def test_every_dimension_has_the_same_weight_overall() -> None:
    random = np.random.default_rng(5)
    cells = {"d1": compared(random, 40), "d2": compared(random, 10)}
    one, two, overall = shifts("now", "then", cells)
    assert overall.dimension == "overall" and overall.tests == 50 and overall.answers == one.answers + two.answers
    assert one.difference is not None and two.difference is not None
    assert overall.difference == pytest.approx((one.difference + two.difference) / 2)
    unknown = [*shifts("now", "then", {**cells, "d3": Compared()})][-1]
    assert unknown.dimension == "overall" and unknown.difference is None and unknown.now is None


def test_a_planted_shift_is_covered_where_tests_have_unequal_numbers_of_answers() -> None:
    """Of 200 repetitions 190 +- 3 cover it, or more: fewer than 180 come once in ten thousand."""
    random, covered, naive = np.random.default_rng(11), 0, 0
    for _ in range(REPETITIONS):
        cell = compared(random, tests=40)
        (found,) = shifts("now", "then", {"d": cell})
        assert found.low is not None and found.high is not None
        covered += found.low <= PLANTED <= found.high
        naive += _by_answer(cell)
    assert covered >= 180
    assert naive < 140


def of_calls(random: np.random.Generator, calls: int, per_call: int, sd: float) -> Compared:
    """One answer a test; tests of a call share the earlier level and how far the judges are apart, on the mean 0."""
    cell = Compared({f"{call}-{test}": str(call) for call in range(calls) for test in range(per_call)})
    for call in range(calls):
        level, apart = random.uniform(0.2, 0.8), random.normal(0, sd)
        for test in range(per_call):
            then = tenth(level, random)
            cell.add(f"{call}-{test}", [tenth(then + apart + random.uniform(-0.1, 0.1), random)], then)
    return cell


def test_a_planted_shift_is_covered_where_tests_share_generation_calls() -> None:
    random, covered, by_test = np.random.default_rng(12), 0, 0
    for _ in range(REPETITIONS):
        cell = of_calls(random, calls=40, per_call=8, sd=0.1)
        (found,) = shifts("now", "then", {"d": cell})
        assert found.low is not None and found.high is not None
        covered += found.low <= 0 <= found.high
        by_test += _by_answer(cell, 0)
    assert covered >= 180
    assert by_test < 140


def _by_answer(cell: Compared, planted: float = PLANTED) -> bool:
    """Whether an interval covers it that takes answers for independent: the test must tell this one apart."""
    each = np.subtract(cell.now, cell.then)
    reach = 1.96 * float(np.std(each, ddof=1)) / sqrt(len(each))
    return abs(float(np.mean(each)) - planted) <= reach


def levels(cell: Compared, draws: int = 50) -> tuple[list[ScoreMap], ScoreMap]:
    *scores, mean = score_maps("now", "then", {"d": cell}, draws)
    return scores, mean


def test_scores_are_mapped_onto_those_of_then_and_never_the_wrong_way_round() -> None:
    cell = Compared()
    pairs = {0.0: (0.0, 0.2), 0.5: (0.6, 0.6), 0.7: (0.4,), 1.0: (0.9, 0.7, 0.8)}
    for now, thens in pairs.items():
        for place, then in enumerate(thens):
            cell.add(f"{now}-{place}", [now], then)
    scores, mean = levels(cell)
    pooled = (0.6 + 0.6 + 0.4) / 3
    assert [(one.score, one.answers) for one in scores] == [(0.0, 2), (0.5, 2), (0.7, 1), (1.0, 3)]
    assert [one.mapped for one in scores] == pytest.approx([0.1, pooled, pooled, 0.8])
    assert mean.score is None and mean.answers == 8 and mean.mapped == pytest.approx((0.2 + 3 * pooled + 2.4) / 8)
    assert mean.low is not None and mean.high is not None and mean.low < mean.mapped < mean.high


def test_the_map_is_that_of_scikit_learn() -> None:
    cell = compared(np.random.default_rng(3), tests=30, replicates=2)
    fit = IsotonicRegression(out_of_bounds="clip").fit(cell.now, cell.then)
    scores, _ = levels(cell)
    assert [one.mapped for one in scores] == pytest.approx(list(fit.predict([one.score for one in scores])))
    assert len(scores) > 10


def test_answers_that_were_not_scored_then_are_mapped_too() -> None:
    cell = Compared()
    cell.add("one", [0.0], 0.2)
    cell.add("two", [1.0], 0.8)
    for _ in range(2):
        cell.add("three", [1.0], None)
        cell.add("three", [0.4, 0.6], None)
    scores, mean = levels(cell)
    assert [(one.score, one.answers) for one in scores] == [(0.0, 1), (0.5, 2), (1.0, 3)]
    assert [one.mapped for one in scores] == pytest.approx([0.2, 0.5, 0.8])
    assert mean.mapped == pytest.approx((0.2 + 2 * 0.5 + 3 * 0.8) / 6)
    assert list(score_maps("now", "then", {"d": Compared()})) == []


def test_the_interval_of_a_mapped_mean_is_seeded_and_by_test() -> None:
    cell = compared(np.random.default_rng(2), tests=60)
    assert levels(cell) == levels(cell)
    _has_interval_by(cell, cell.tests)


def test_the_interval_of_a_mapped_mean_is_by_generation_call() -> None:
    cell = of_calls(np.random.default_rng(4), calls=60, per_call=6, sd=0.05)
    _has_interval_by(cell, [test.partition("-")[0] for test in cell.tests])


def _has_interval_by(cell: Compared, groups: Sequence[str]) -> None:
    _, mean = levels(cell, draws=400)
    by_hand = np.mean(cell.then)
    residuals = sums_by(np.array(cell.then) - by_hand, groups)
    error = sqrt(float(residuals @ residuals)) / len(cell.then)
    assert mean.low is not None and mean.high is not None
    assert mean.mapped == pytest.approx(by_hand) and (mean.high - mean.low) / 3.92 == pytest.approx(error, rel=0.2)


@pytest.mark.parametrize("other", [{"first": "only", "second": "only"}, {"first": "one", "second": "another"}])
@pytest.mark.parametrize("calls", [{}, {"first": "only", "second": "only"}])
def test_a_map_with_a_dimension_of_one_call_has_no_intervals(calls: dict[str, str], other: dict[str, str]) -> None:
    cells = {"d": Compared(calls), "e": Compared(other)}
    for at, (cell, own) in enumerate(zip(cells.values(), (calls, other), strict=True)):
        tests = list(own) or ["first", "first"]
        cell.add(tests[0], [at / 2], 0.2)
        cell.add(tests[1], [0.8], 0.9)
    assert {(one.low, one.high) for one in score_maps("now", "then", cells)} == {(None, None)}
