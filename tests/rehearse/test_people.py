"""People whose ratings are planted with a bias: a rehearsal knows each again and sees what is wrong."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest

from hab_ray.analysis.rating.reading import RatedDimension, people_of
from hab_ray.analysis.rating.statistics import Estimate, Rated, difference
from hab_ray.analysis.summary import Summary, summarise
from hab_ray.analysis.tables.trust import people as table_of_people
from hab_ray.analysis.tables.trust import raters as table
from hab_ray.given.ratings import Rating
from hab_ray.rehearse import people as checks
from hab_ray.rehearse.figures import Checked
from hab_ray.rehearse.people import PlantedRatings, compare_people, plant, with_ratings
from hab_ray.rehearse.perform import Rehearsal
from hab_ray.rehearse.trouble import People
from hab_ray.rehearse.truth import Truth
from hab_ray.results import open_run
from hab_ray.rows import Rater
from hab_ray.sweep import raters as joining
from hab_ray.sweep.raters import Joined, join_ratings, place_raters
from hab_ray.work import Work
from tests.rehearse.conftest import ASKED, DIMENSIONS, PEOPLE, SUBJECTS, Stage
from tests.rehearse.mutants import Mutant, Patch, put

ANSWERS = len(SUBJECTS) * ASKED
Rehearsed = Callable[[], Checked]


@pytest.fixture
def rated(rehearsed_stage: Stage) -> Iterator[Rehearsed]:
    """Gives planted ratings to a sweep that was rehearsed, and compares what comes of it."""
    work = rehearsed_stage.work

    def compare() -> Checked:
        planted = planted_in(rehearsed_stage)
        place_raters(with_ratings(work, planted))
        run = open_run(work.run_path)
        return compare_people(run, summarise(run), planted)

    yield compare
    place_raters(work)


def planted_in(stage: Stage, people: People = PEOPLE, seed: int = 0) -> PlantedRatings:
    return plant(stage.work, Truth(stage.work, stage.client), people, seed)


def test_a_whole_rehearsal_knows_its_people_again(sound: tuple[Stage, Rehearsal]) -> None:
    _, done = sound
    assert done.passed and done.comparison.people.wrong == ()
    assert 0.4 * 3 * ANSWERS < done.comparison.people.compared < 3 * ANSWERS


def test_every_rating_is_the_true_score_with_the_bias(rehearsed_stage: Stage) -> None:
    exact, lower, half = (
        planted_in(rehearsed_stage, People(raters=20, bias=bias)).scores for bias in (0.0, -1.0, -0.5)
    )
    assert len(exact) == 20 * ANSWERS
    assert {rated: max(0, score - 1) for rated, score in exact.items()} == lower
    moved = [exact[rated] - score for rated, score in half.items() if exact[rated]]
    assert set(moved) == {0, 1} and 0.3 < sum(moved) / len(moved) < 0.7
    assert planted_in(rehearsed_stage) == planted_in(rehearsed_stage) != planted_in(rehearsed_stage, seed=1)


def rotated(values: Iterable[str]) -> dict[str, str]:
    """By each value another."""
    known = sorted(set(values))
    return {value: known[at - 1] for at, value in enumerate(known)}


def of_other_tests(ratings: list[Rating]) -> list[Rating]:
    others: dict[str, str] = {}
    for dimension in DIMENSIONS:
        others |= rotated(rating.test for rating in ratings if rating.dimension == dimension)
    return [replace(rating, test=others[rating.test]) for rating in ratings]


def of_other_subjects(ratings: list[Rating]) -> list[Rating]:
    others = rotated(SUBJECTS)
    return [replace(rating, subject=others[rating.subject]) for rating in ratings]


def of_other_raters(ratings: list[Rating]) -> list[Rating]:
    others = rotated(rating.rater for rating in ratings)
    return [replace(rating, rater=others[rating.rater]) for rating in ratings]


MUTANTS_OF_RATINGS: dict[str, tuple[Callable[[list[Rating]], list[Rating]], str]] = {
    "ratings of another test": (of_other_tests, ", planted"),
    "ratings of another subject": (of_other_subjects, ", planted"),
    "ratings of another rater": (of_other_raters, "there 0 times"),
    "the last rating lost": (lambda ratings: ratings[:-1], "there 0 times, expected 1 times"),
    "scores moved by one": (lambda ratings: [replace(r, score=abs((r.score or 0) - 1)) for r in ratings], ", planted"),
    "people taken for published": (
        lambda ratings: [replace(r, kind=Rater.PUBLISHED) for r in ratings],
        ": published ok score",
    ),
    "letters made up": (lambda ratings: [replace(r, issues=()) for r in ratings], ": person ok score"),
}


@pytest.mark.parametrize("name", MUTANTS_OF_RATINGS)
def test_ratings_that_are_joined_in_another_way(rated: Rehearsed, monkeypatch: Patch, name: str) -> None:
    change, reason = MUTANTS_OF_RATINGS[name]

    def join(work: Work, ratings: Iterable[Rating]) -> Joined:
        return join_ratings(work, change(list(ratings)))

    monkeypatch.setattr(joining, "join_ratings", join)
    wrong = rated().wrong
    assert any(reason in problem for problem in wrong), wrong


def test_a_view_of_ratings_that_is_stale(rated: Rehearsed, rehearsed_stage: Stage) -> None:
    assert rated().wrong == ()
    planted = planted_in(rehearsed_stage, PEOPLE.model_copy(update={"bias": 1.0}))
    run = open_run(rehearsed_stage.work.run_path)
    assert any(", planted" in problem for problem in compare_people(run, summarise(run), planted).wrong)


def first_judge_alone(summary: Summary, subject: str, dimension: str) -> dict[tuple[str, int], float]:
    """Mutant of the panel's marks: those of the first judge."""
    own = summary.cells[subject, dimension, summary.settings.panel[0]]
    answers = product(summary.settings.tests[dimension], range(summary.settings.samples))
    return {at: mark for at, mark in zip(answers, own.by_test.ravel().tolist(), strict=True) if mark == mark}


def test_lines_of_raters_that_stand_twice(rated: Rehearsed, monkeypatch: Patch) -> None:
    monkeypatch.setattr(checks, "raters", lambda summary: [*table.raters(summary), *table.raters(summary)])
    (problem,) = rated().wrong
    assert re.fullmatch(r"the table of raters has \d+ lines for \d+ raters and dimensions", problem)


def swapped_judges(summary: Summary) -> tuple[tuple[str, ...], list[RatedDimension]]:
    """Mutant of what the table of people starts from: each judge's scores under another's name."""
    names, found = people_of(summary)
    others = rotated(found[0].scores)
    return names, [replace(each, scores={j: each.scores[others[j]] for j in each.scores}) for each in found]


def swapped_sides(parts: Sequence[Rated]) -> Estimate:
    """Mutant of the difference: the people's mean less the judge's."""
    found = difference(parts)
    return replace(found, value=None if found.value is None else -found.value)


@pytest.mark.parametrize(
    ("plant", "line"),
    [
        (put(table, "panel_marks", first_judge_alone), "the line of person-"),
        (put(table, "_mean", max), "the line of person-"),
        (put(table_of_people, "people_of", swapped_judges), "the difference from people of "),
        (put(table_of_people, "difference", swapped_sides), "the difference from people of "),
    ],
)
def test_a_table_that_is_made_in_another_way(rated: Rehearsed, monkeypatch: Patch, plant: Mutant, line: str) -> None:
    plant(monkeypatch)
    wrong = rated().wrong
    assert wrong and all(problem.startswith(line) for problem in wrong)


def test_calls_that_ratings_cost_and_ratings_that_nobody_gave_are_problems(rehearsed_stage: Stage) -> None:
    run = open_run(rehearsed_stage.work.run_path)
    place_raters(rehearsed_stage.work)
    found = compare_people(run, summarise(run), PlantedRatings({}, {}), calls=2)
    assert sorted(problem.split(",")[0] for problem in found.wrong) == [
        "2 calls were sent after ratings were added",
        "nobody has rated anything; raise `people.share` or `people.raters`",
    ]
