"""Analyses that are made otherwise are noticed by what a rehearsal makes anew of the same rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import neg
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hab_ray.analysis.across import comparison
from hab_ray.analysis.evidence import answers, items
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables import generalisability, robustness
from hab_ray.analysis.tables.trust import agreement, preferences
from hab_ray.rehearse.claims import wrong_comparison
from hab_ray.rehearse.judges import wrong_agreement, wrong_preferences
from hab_ray.rehearse.profile import digest
from hab_ray.rehearse.reader import RunReader
from hab_ray.rehearse.stability import wrong_generalisability, wrong_reliability, wrong_robustness
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.work import Work
from tests.rehearse.mutants import Patch, around, ends_swapped, halved, result
from tests.small_runs import Shape, answer_files, page_of, revise, summary_of, verdict_files, write_run

JUDGES = ("acme/large", "bolt/large", "other/large")
SUBJECTS = ("acme/large", "acme/small", "bolt/large", "free/one", "free/two")


def uneven(work: Work) -> None:
    """Let answers differ in length, cost and refusals, judges in severity and cost, subjects in how good they are."""
    random, said = Random(3), ("I can't help with that.", "It depends.", "It depends on a good deal. " * 4)

    def worded(row: Response) -> Response:
        return replace(row, text=random.choice(said) if row.text else "", cost_nanousd=random.randrange(10**9))

    def marked(row: Verdict) -> Verdict:
        mark = random.choice((10, 9, 7, 5)) - JUDGES.index(row.judge) - SUBJECTS.index(row.subject) // 2
        return replace(row, score=mark if row.state is State.OK else None, cost_nanousd=random.randrange(10**9))

    revise(work, Response, worded, *answer_files(work))
    revise(work, Verdict, marked, *verdict_files(work))


def written(folder: Path, tests: int) -> Summary:
    work = write_run(folder / "run", Shape(subjects=SUBJECTS, judges=JUDGES, tests=tests, samples=2, fail=0.05))
    uneven(work)
    return summary_of(work)


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return written(tmp_path_factory.mktemp("remade"), tests=6)


CHECKS: dict[ModuleType, Callable[[RunReader], Iterator[str]]] = {
    preferences: wrong_preferences,
    comparison: wrong_comparison,
    robustness: wrong_reliability,
    generalisability: wrong_generalisability,
}


def wrong(summary: Summary, analysis: ModuleType) -> str:
    """All that is found wrong with an analysis, one a line."""
    return "\n".join(CHECKS[analysis](RunReader(replace(summary, tables={}), calls={})))


def test_sound_analyses_are_made_anew(summary: Summary, tmp_path: Path) -> None:
    """Of every half of the tests, of halves that are drawn, and of a single test."""
    for sound in (summary, written(tmp_path, tests=5), written(tmp_path / "one", tests=1)):
        assert not any(wrong(sound, analysis) for analysis in CHECKS)


def test_an_answer_that_was_lost_is_noticed(tmp_path: Path) -> None:
    work = write_run(tmp_path / "run", Shape(subjects=SUBJECTS, judges=JUDGES))
    file, *_ = answer_files(work)
    work.run.write(Response, file, work.run.read(Response, file)[1:])
    assert "preference of itself, acme/large" in wrong(summary_of(work), preferences)


def test_ties_between_readings_that_do_not_count_half_are_noticed(tmp_path: Path, monkeypatch: Patch) -> None:
    work = write_run(tmp_path / "run", Shape(judges=JUDGES[:2], dimensions=("encourage_learning",), replicates=2))
    random = Random(4)
    for file in verdict_files(work):
        rows = work.run.read(Verdict, file)
        again = [replace(row, replicate=1, issues=random.choice(((), ("A",), ("B", "C")))) for row in rows]
        work.run.write(Verdict, file, [*rows, *again])
    checks: list[tuple[ModuleType, Callable[[RunReader], Iterator[str]]]] = [
        (agreement, wrong_agreement),
        (robustness, wrong_robustness),
    ]
    for analysis, check in checks:
        assert not list(check(RunReader(summary_of(work), calls={})))
        monkeypatch.setattr(analysis, "majority", lambda shares: np.where(np.isnan(shares), np.nan, shares >= 0.5))
        assert list(check(RunReader(summary_of(work), calls={})))


@pytest.mark.parametrize(
    ("size", "why"), [(3, "too few tests have a score by every judge"), (6, "one generation call made all tests")]
)
def test_errors_that_take_generation_calls_for_tests_are_noticed(
    tmp_path: Path, monkeypatch: Patch, size: int, why: str
) -> None:
    """Two calls made three tests each, or one made six; one of three has every verdict."""
    work = write_run(tmp_path / "run", Shape(SUBJECTS, JUDGES, ("encourage_learning",), tests=6))
    uneven(work)
    file = "tests/encourage_learning.parquet"
    tests = [replace(test, call=f"c{at // size}") for at, test in enumerate(work.run.read(ChosenTest, file))]
    work.run.write(ChosenTest, file, tests)
    (first, *_), lost = verdict_files(work), {test.id for at, test in enumerate(tests) if at % 3}
    revise(
        work, Verdict, lambda row: replace(row, state=State.FAILED, score=None) if row.test_id in lost else row, first
    )
    calls = {"encourage_learning": {digest(test.prompt): str(test.call) for test in tests}}
    assert not list(wrong_generalisability(RunReader(summary_of(work), calls)))
    page = " ".join(page_of(work).split())
    assert f"That is unknown: {why}" in page and "These errors hold" not in page
    around(generalisability, "errors", calls_of_one)(monkeypatch)
    assert "does not follow from its components" in "".join(wrong_generalisability(RunReader(summary_of(work), calls)))


def calls_of_one(sound: Any) -> Any:
    """Mutant of `errors`: every test counts as one of a generation call of its own."""
    return lambda found, asked, design: sound(found, replace(asked, calls=asked.tests), design)


def first_of_others(sound: Any) -> Any:
    """One of the others stands for all of them."""
    return lambda summary, judge, others, *rest: sound(summary, judge, others[:1], *rest)


def strangers_for_own(sound: Any) -> Any:
    return lambda summary, who, names, rest: sound(summary, who, rest, names)


def weighted(sound: Any) -> Any:
    """Mutant of `combined`: the first dimension counts twice."""
    return lambda parts: sound([parts[0], *parts]) if parts else None


def runs_swapped(sound: Any) -> Any:
    return lambda first, second, subject, dimension, ids: sound(
        second, first, subject, dimension, {other: one for one, other in ids.items()}
    )


def sides_swapped(sound: Any) -> Any:
    return lambda one, other: sound(other, one)


def of_second_alone(sound: Any) -> Any:
    """Mutant of `_difference`: the second mean's interval is taken for that of the difference."""

    def mutant(part: Any) -> Any:
        found = sound(part)
        if part.ahead is not None or found is None:
            return found
        second = part.means[1]
        return replace(found, low=found.mean + second.low - second.mean, high=found.mean + second.high - second.mean)

    return mutant


def among_the_others(marks: Any) -> Any:
    """Mutant of `item_rest`: the test is in the mean that it is set against."""
    return np.array([np.corrcoef(own, marks.mean(1))[0, 1] for own in marks.T])


def of_halves(found: float) -> float:
    """Mutant of `_spearman_brown`: the correlation of the halves themselves."""
    return float(found / (2 - found))


def first_judge(found: Any) -> Any:
    marks, ids, calls = found
    return marks[:, :, :1].repeat(len(JUDGES), axis=2), ids, calls


def first_part(sound: Any) -> Any:
    """Mutant of `_together`: the overall design is that of the first dimension."""
    return lambda rows, shared: replace(sound(rows, shared), difference_error=rows[0].difference_error, usd=rows[0].usd)


def unshared(_: Any) -> Any:
    """Mutant of `subject_judge_overall`: dimensions as if each had judges of its own."""
    return lambda means, by_dimension: max(0.0, sum(by_dimension)) / len(means) ** 2


def fewer_judges(sound: Any) -> Any:
    """Mutant of `_design`: a design has a judge less than it should."""
    return lambda one, name, design, samples: sound(one, name, replace(design, judges=design.judges - 1), samples)


def of_complete(sound: Any) -> Any:
    """Mutant of `split_half`: only tests with every mark count."""
    return lambda marks: sound(marks[:, ~np.isnan(marks).any(axis=0)])


def a_test_less(sound: Any) -> Any:
    """Mutant of `Design`: one of the tests does not count."""
    return lambda first, tests, *rest: sound(first, tests - 1, *rest)


def own_error(found: Any) -> Any:
    """Mutant of `errors`: other judges would be as these are."""
    return replace(found, with_judges=found.difference)


# By what is wrong: the function or method of the pipeline, its mutant, and the problem that is found.
MUTANTS: dict[str, tuple[ModuleType, str, Callable[[Any], Any], str]] = {
    "judges of a preference swapped": (preferences, "_ahead", result(neg), "preference of itself, acme"),
    "one other judge for all": (preferences, "_ahead", first_of_others, "preference of refusals, "),
    "strangers for its own": (preferences, "_of_kind", strangers_for_own, "preference of vendor, acme"),
    "ends of a preference swapped": (preferences, "_row", result(ends_swapped), "has the interval"),
    "dimensions of a preference weighted": (preferences, "combined", weighted, ", overall is"),
    "calls only of refusals": (preferences, "varies", lambda _: lambda on, _: on > 0, "preference of refusals, "),
    "everything refuses": (answers, "refuses", lambda _: lambda text: len(text) < 30, "preference of refusals, "),
    "runs swapped": (comparison, "_part", runs_swapped, "two runs, the score"),
    "sides of a pair swapped": (comparison, "ahead", sides_swapped, "two runs, the score"),
    "the second run's interval for the difference's": (
        comparison,
        "_difference",
        of_second_alone,
        "two runs, the score",
    ),
    "dimensions of a comparison weighted": (comparison, "combined", weighted, "two runs, the score"),
    "a comparison that is not corrected": (comparison, "holm", lambda _: list, "in two runs in"),
    "a one-sided comparison": (comparison, "p_of", result(halved), "the p-value of"),
    "a test among the others": (robustness, "item_rest", lambda _: among_the_others, "of ask_clarifying_questions is"),
    "the sign of a test swapped": (robustness, "item_rest", result(neg), "reversed of"),
    "halves not stepped up": (items, "_spearman_brown", result(of_halves), "split_half of"),
    "halves of the complete tests": (robustness, "split_half", of_complete, "split_half of"),
    "one judge for the panel": (robustness, "complete_marks", result(first_judge), " of ask_clarifying_questions is"),
    "bills of answers and verdicts swapped": (generalisability, "_usd", result(lambda found: found[::-1]), "costs"),
    "a design of fewer tests": (generalisability, "Design", a_test_less, "does not follow from its components"),
    "a design of fewer judges": (generalisability, "_design", fewer_judges, "costs"),
    "the first dimension for all": (generalisability, "_together", first_part, "overall does not follow"),
    "other judges in each dimension": (generalisability, "subject_judge_overall", unshared, "overall does not follow"),
    "these judges for others": (generalisability, "errors", result(own_error), "does not follow from its components"),
}
USED_BY = {answers: preferences, items: robustness}


@pytest.mark.parametrize("name", MUTANTS)
def test_an_analysis_that_is_made_otherwise_is_noticed(summary: Summary, monkeypatch: Patch, name: str) -> None:
    place, function, change, reason = MUTANTS[name]
    around(place, function, change)(monkeypatch)
    assert reason in wrong(summary, USED_BY.get(place, place))
