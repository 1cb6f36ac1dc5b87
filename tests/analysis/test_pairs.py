"""Differences of pairs against scipy and brute force, Holm by hand, ranges of ranks, and what a design can show."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from random import Random
from statistics import mean

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hab_ray.analysis.intervals import gaffke
from hab_ray.analysis.marks import OVERALL, ItemScores, ScoreSettings
from hab_ray.analysis.pairs import ahead, holm, over_dimensions, p_of, rank_ranges
from hab_ray.analysis.power import Design, distinct_groups, sentinels
from hab_ray.analysis.signflips import p_of_mean
from hab_ray.analysis.tables.differences import designs_of, difference_of, differences
from hab_ray.rows import ChosenTest, Verdict
from hab_ray.stages.views import verdicts_file
from tests.small_runs import MakeRun, Shape, summary_of


def marks(subject: str, dimension: str, given: list[float | None], calls: tuple[str, ...] = ()) -> ItemScores:
    return ItemScores(subject, dimension, "panel", np.array(given, dtype=float)[:, None], 0, calls)


ONE = marks("a", "d1", [0.9, 0.8, None, 0.7, 0.2, 0.5, 1.0])
OTHER = marks("b", "d1", [0.4, 0.9, 0.3, None, 0.1, 0.1, 0.6])
STEPS = [0.5, -0.1, 0.1, 0.4, 0.4]


def test_a_pair_is_compared_over_the_tests_that_both_have() -> None:
    found = ahead(ONE, OTHER)
    assert found is not None and found.difference.tests == 5
    assert found.difference.mean == pytest.approx(np.mean(STEPS))
    by_t = stats.t.interval(0.95, 4, np.mean(STEPS), stats.sem(STEPS))
    by_gaffke = gaffke(STEPS, -1.0)
    assert found.difference.low == pytest.approx(min(by_t[0], by_gaffke[0]), abs=1e-9)
    assert found.difference.high == pytest.approx(max(by_t[1], by_gaffke[1]), abs=1e-9)
    assert found.sd == pytest.approx(np.std(STEPS, ddof=1))
    swapped = ahead(OTHER, ONE)
    assert swapped is not None and swapped.difference.low == pytest.approx(-(found.difference.high or 0), abs=1e-9)
    assert ahead(ONE, marks("b", "d1", [None] * 7)) is None


def test_signs_are_flipped_by_generation_call() -> None:
    calls = ("x", "x", "y", "y", "y", "z", "z")
    found = ahead(marks("a", "d1", _of(ONE), calls), marks("b", "d1", _of(OTHER), calls))
    assert found is not None and sorted(found.sums) == pytest.approx([0.1, 0.4, 0.8])
    assert p_of([found]) == pytest.approx(2 / 8)


@pytest.mark.parametrize("lead", [0.0, 0.3, -0.4])
def test_what_can_be_detected_does_not_depend_on_the_difference(lead: float) -> None:
    """Calls of 1 to 20 tests; the same scatter around another difference."""
    sizes = [1] * 14 + [2] * 6 + [5] * 4 + [12, 12, 20]
    calls = tuple(f"call {at}" for at, size in enumerate(sizes) for _ in range(size))
    scatter = np.random.default_rng(6).uniform(-0.1, 0.1, len(calls))
    found = [
        ahead(
            marks("a", "d", (0.5 + each / 2 + scatter).tolist(), calls), marks("b", "d", [0.5 - each / 2] * 90, calls)
        )
        for each in (0.0, lead)
    ]
    sds = [each.sd for each in found if each is not None]
    assert sds[1] == pytest.approx(sds[0]) and sds[0] > 0.02
    constant = ahead(marks("a", "d", [0.5 + lead] * 90, calls), marks("b", "d", [0.5] * 90, calls))
    assert constant is not None and constant.sd == 0


def test_a_dimension_with_one_generation_call_leaves_unknown_what_can_be_detected_overall(make_run: MakeRun) -> None:
    dimensions = ("ask_clarifying_questions", "correct_misinformation")
    work = make_run(Shape(("alpha", "beta"), dimensions=dimensions, tests=12))
    tests = [replace(test, call="one") for test in work.run.read(ChosenTest, f"tests/{dimensions[0]}.parquet")]
    work.run.write(ChosenTest, f"tests/{dimensions[0]}.parquet", tests)
    summary = summary_of(work)
    overall, one, many = differences(summary)
    assert (one.calls, one.sd) == (1, None) and overall.sd is None and many.sd is not None
    designs = designs_of([overall, one, many], summary.settings)
    assert list(designs) == [OVERALL, *dimensions] and math.isnan(designs[OVERALL].smallest)
    assert designs[OVERALL].detectable == "what can be detected is unknown, with one generation call in a dimension"
    assert designs[dimensions[0]].detectable.startswith("too few generation calls")
    assert designs[dimensions[1]].detectable.startswith(("differences of", "each pair"))


def test_the_sd_of_calls_of_one_size_is_that_of_their_means() -> None:
    random = np.random.default_rng(3)
    given, calls = random.random(12), tuple(str(at // 3) for at in range(12))
    found = ahead(marks("a", "d", given.tolist(), calls), marks("b", "d", [0.0] * 12, calls))
    assert found is not None and found.sd == pytest.approx(np.std(given.reshape(4, 3).mean(1), ddof=1))


def _of(found: ItemScores) -> list[float | None]:
    return [None if np.isnan(mark) else float(mark) for (mark,) in found.by_test]


def test_the_overall_p_flips_every_call_of_every_dimension() -> None:
    parts = [ahead(ONE, OTHER), ahead(marks("a", "d2", [1.0, 0.2, 0.5]), marks("b", "d2", [0.3, 0.4, 0.1]))]
    known = [part for part in parts if part is not None]
    weighted = [step / 5 for step in STEPS] + [step / 3 for step in (0.7, -0.2, 0.4)]
    far = abs(sum(weighted)) - 1e-9
    signs = list(product((-1, 1), repeat=8))
    brute = sum(abs(sum(s * w for s, w in zip(each, weighted, strict=True))) >= far for each in signs) / len(signs)
    assert p_of(known) == pytest.approx(brute, abs=1e-9)
    tests, mean, p = over_dimensions(parts)
    assert (tests, p) == (8, p_of(known))
    assert mean is not None and mean.mean == pytest.approx((np.mean(STEPS) + 0.3) / 2)
    assert over_dimensions([*parts, None]) == (8, None, None)


@pytest.mark.parametrize("tests", [(101, 103, 107), (149, 151, 157)])
@pytest.mark.parametrize("lead", [0.0, 0.2, 0.4])
def test_the_overall_p_of_uneven_tests_is_never_below_the_exact_one(tests: tuple[int, int, int], lead: float) -> None:
    """Numbers of tests without a coarse common lattice: against all pairs of sums of two parts and the third's tail."""
    random = np.random.default_rng(tests[0])
    for _ in range(4):
        tenths = [random.integers(-3, 4, each) + (random.random(each) < lead) for each in tests]
        found, exact = p_of_mean([part / 10 for part in tenths], tests), exact_p(tenths, tests)
        assert exact * (1 - 1e-9) <= found <= exact * 1.002


def exact_p(sums: Sequence[NDArray[np.int64]], tests: Sequence[int]) -> float:
    """The p-value of the mean of three parts' means, in integers; `sums` are multiples of a common unit."""
    supports, chances, whole = [], [], math.lcm(*tests)
    for part, size in zip(sums, tests, strict=True):
        chance = np.ones(1)
        for step in np.abs(part):
            chance = np.convolve(chance, [0.5, *[0.0] * (2 * step - 1), 0.5]) if step else chance
        supports.append(np.arange(-(len(chance) // 2), len(chance) // 2 + 1) * (whole // size))
        chances.append(chance)
    observed = abs(sum(int(part.sum()) * (whole // size) for part, size in zip(sums, tests, strict=True)))
    tail = np.append(np.cumsum(chances[2][::-1])[::-1], 0.0)
    lacking = observed - np.add.outer(supports[0], supports[1])
    upper = float((np.outer(chances[0], chances[1]) * tail[np.searchsorted(supports[2], lacking)]).sum())
    return min(1.0, 2 * upper) if observed else 1.0


def test_holm_is_as_in_the_textbook() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.6]) == [1.0, 1.0] and holm([]) == []


def test_ranks_are_ranges() -> None:
    told = [("a", "c"), ("a", "d"), ("b", "d")]
    assert rank_ranges("abcd", told) == {"a": (1, 2), "b": (1, 3), "c": (2, 4), "d": (3, 4)}
    assert rank_ranges("ab", []) == {"a": (1, 2), "b": (1, 2)}


def test_the_family_wise_error_is_held_on_null_data() -> None:
    """Of 100 null sweeps of 6 subjects 5 are expected to tell a pair apart, or fewer; above 12 comes once in 1,000."""
    random, wrong = np.random.default_rng(5), 0
    for _ in range(100):
        level = random.random(20)
        drawn = np.round(np.clip(level + random.normal(0, 0.2, (6, 20)), 0, 1), 1)
        wrong += min(holm([p_of_mean([one - other], [1]) for one, other in combinations(drawn, 2)])) <= 0.05
    assert wrong <= 12


def test_what_a_design_can_show() -> None:
    assert "with 12 tests no pair of 20 subjects can ever differ" in Design(20, 12).describe("defer")
    assert "40 generation calls show a difference of 0.1" in Design(3, 40).describe("defer", "generation calls")
    assert "with 1 test no pair" in Design(2, 1).describe("defer")
    assert "too few generation calls" in Design(2, 1).detectable
    assert not Design(1, 100).can_show_any and Design(20, 13).can_show_any and Design(2, 6).can_show_any
    assert Design(2, 100, 0.35).smallest == pytest.approx(
        (stats.t.ppf(0.975, 99) + stats.t.ppf(0.8, 99)) * 0.035, abs=1e-4
    )
    assert "between two of 20 subjects" in Design(20, 500).describe("defer")
    assert "between the two subjects" in Design(2, 500).describe("defer")


@pytest.mark.parametrize(("subjects", "calls"), [(2, 6), (2, 8), (4, 10), (6, 12), (8, 20)])
def test_a_difference_that_can_be_detected_is_significant_in_about_four_of_five_runs(subjects: int, calls: int) -> None:
    random, design = np.random.default_rng(2), Design(subjects, calls, 0.2)
    drawn = random.normal(design.smallest, design.sd, (400, calls))
    power = np.mean([p_of_mean([row], [calls]) * design.pairs <= 0.05 for row in drawn])
    assert 0.65 < power < 0.85


def test_generation_calls_of_unequal_size_are_allowed_for_in_what_can_be_detected() -> None:
    """Calls of 1 to 20 tests: as many calls of equal size would detect smaller differences."""
    random, sizes = np.random.default_rng(4), np.array([1] * 14 + [2] * 6 + [5] * 4 + [12, 12, 20])
    calls, sd = tuple(map(str, np.repeat(np.arange(27), sizes))), 0.3
    tests = tuple(map(str, range(len(calls))))
    settings = ScoreSettings(tuple("abcdef"), ("strict",), {"d": tests}, calls={"d": calls})
    found = ahead(marks("a", "d", [0.6] * len(calls), calls), marks("b", "d", [0.5] * len(calls), calls))
    of_calls = sd * (27 / len(calls)) ** 0.5
    rows = [replace(difference_of(*pair, "d", [found], 0.05), sd=of_calls) for pair in combinations("abcdef", 2)]
    design = designs_of(rows, settings)["d"]
    assert (design.calls, design.pairs, design.sd) == (27, 15, of_calls)
    drawn = sizes * design.smallest + random.normal(0, sd, (400, 27)) * np.sqrt(sizes)
    power = np.mean([p_of_mean([row], [len(calls)]) * design.pairs <= 0.05 for row in drawn.round(2)])
    assert 0.7 < power < 0.9


def test_sentinels_are_as_many_as_a_paired_test_needs() -> None:
    """The power of the normal test at that number is the one asked for."""
    count = sentinels(0.02, 0.15)
    assert count == 441 and sentinels() == count
    assert stats.norm.sf(stats.norm.ppf(0.975) - 0.02 * count**0.5 / 0.15) == pytest.approx(0.8, abs=1e-3)
    assert sentinels(0.04, 0.15) == pytest.approx(count / 4, abs=1)
    assert Design(2, count, 0.15).smallest == pytest.approx(0.02, abs=1e-4)


@pytest.mark.parametrize(("items", "size", "chosen"), [(3000, 3, 500), (36, 3, 6), (10, 1, 10), (2, 3, 2), (7, 3, 7)])
def test_a_plan_counts_the_generation_calls_that_chosen_tests_come_from(items: int, size: int, chosen: int) -> None:
    random = Random(1)
    draws = [len({at // size for at in random.sample(range(items), chosen)}) for _ in range(2000)]
    assert distinct_groups(items, size, chosen) == pytest.approx(mean(draws), abs=0.6)


def test_a_plan_names_tests_beside_fewer_generation_calls() -> None:
    few, enough = Design(2, 4), Design(2, 421)
    assert "with 4 generation calls (of 6 tests) no pair" in few.describe("learning", "generation calls", tests=6)
    assert "421 generation calls (of 500 tests) show" in enough.describe("learning", "generation calls", tests=500)


@pytest.mark.parametrize("lead", [0.7, 1.0])
def test_a_difference_that_never_varies_is_not_called_equal_scores(lead: float) -> None:
    """Differences of .7 are equal but for rounding."""
    lower: list[float | None] = [at % 3 / 10 * (1 - lead) for at in range(20)]
    found = ahead(marks("a", "d1", [lead + (mark or 0) for mark in lower]), marks("b", "d1", lower))
    assert found is not None and found.sd == 0 and found.difference.mean == pytest.approx(lead)
    assert Design(2, found.calls, found.sd).detectable == "each pair's difference is the same in every call"


def test_a_subject_without_scores_makes_no_difference_harder_to_detect(make_run: MakeRun) -> None:
    """Seven calls: the smallest p, 2 / 2^7, is enough for the three known pairs, and not for six."""
    names, dimensions = ("alpha", "beta", "gamma", "silent"), ("ask_clarifying_questions", "correct_misinformation")
    work = make_run(Shape(names, dimensions=dimensions, tests=7))
    work.run.write(Verdict, verdicts_file("strict", "silent", dimensions[1]), [])
    for at, name in enumerate(names[:3]):
        for dimension in dimensions:
            file = verdicts_file("strict", name, dimension)
            work.run.write(Verdict, file, [replace(row, score=9 - 3 * at) for row in work.run.read(Verdict, file)])
    summary = summary_of(work)
    rows = differences(summary)
    assert sum(row.differs for row in rows if row.dimension == dimensions[1]) == 3
    designs = designs_of(rows, summary.settings)
    assert {name: each.subjects for name, each in designs.items()} == {OVERALL: 3, dimensions[0]: 4, dimensions[1]: 3}
    assert designs[dimensions[1]].can_show_any and not designs[dimensions[0]].can_show_any


def test_no_pair_is_called_undetectable_beside_one_that_differs(make_run: MakeRun) -> None:
    """One pair shares seven tests, the others four: 2 / 2^7 is enough for three pairs, 2 / 2^4 is not."""
    dimension, names = "ask_clarifying_questions", ("alpha", "beta", "short")
    work = make_run(Shape(names, dimensions=(dimension,), tests=7))
    for at, name in enumerate(names):
        file = verdicts_file("strict", name, dimension)
        rows = [replace(row, score=9 - 3 * at) for row in work.run.read(Verdict, file)]
        work.run.write(Verdict, file, rows[: 4 if name == "short" else 7])
    summary = summary_of(work)
    found = [row for row in differences(summary) if row.dimension == dimension]
    assert [row.differs for row in found] == [True, False, False]
    assert "too few" not in designs_of(found, summary.settings)[dimension].detectable
