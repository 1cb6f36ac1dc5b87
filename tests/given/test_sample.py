"""Which of the given answers a sweep reads: a sample drawn by test, or what people have rated."""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from hab_ray.config.sections import Drawn, GivenAnswers
from hab_ray.given.ratings import Rating, response_digest
from hab_ray.given.responses import GivenResponses
from hab_ray.given.sample import chosen_answers, describe_sample
from hab_ray.rows import ChosenTest, Rater, Response, State

DIMENSION, OTHER = "encourage_learning", "ask_clarifying_questions"
Rows = dict[tuple[str, str], list[Response]]


def query(number: int, dimension: str = DIMENSION) -> ChosenTest:
    return ChosenTest(f"{dimension}-{number}", dimension, f"Query {number}?", "", "", None)


def answer(test: ChosenTest, subject: str = "old", state: State = State.OK) -> Response:
    text = f"{subject} on {test.id}" if state is State.OK else ""
    return Response(test.id, test.dimension, subject, 0, state, text, "ok", "", "", "", "", "")


def rating(test: str, kind: Rater = Rater.PERSON, subject: str = "old", digest: str | None = None) -> Rating:
    return Rating(test, DIMENSION, subject, 0, "somebody", kind, 5, None, "", digest)


def found(rows: Iterable[Response], tests: Iterable[ChosenTest]) -> GivenResponses:
    by_part: Rows = {}
    for row in rows:
        by_part.setdefault((row.subject, row.dimension), []).append(row)
    by_dimension: dict[str, list[ChosenTest]] = {}
    for test in tests:
        by_dimension.setdefault(test.dimension, []).append(test)
    return GivenResponses(by_dimension, by_part)


def given(**changes: Any) -> GivenAnswers:
    return GivenAnswers.model_validate({"file": "answers.parquet", "subjects": ["old", "new"], **changes})


def sampled(per_dimension: int, seed: int = 0) -> GivenAnswers:
    return given(sample={"per_dimension": per_dimension, "by": "test", "seed": seed})


def ids(chosen: GivenResponses, subject: str = "old", dimension: str = DIMENSION) -> list[str]:
    return [row.test_id for row in chosen.responses.get((subject, dimension), [])]


TESTS = [query(n) for n in range(40)]
WHOLE = found((answer(test, subject) for subject in ("old", "new") for test in TESTS), TESTS)


def test_all_is_read_where_nothing_is_said() -> None:
    assert chosen_answers(WHOLE, given(), ()) == (WHOLE, {})


def test_the_same_tests_are_drawn_of_every_subject() -> None:
    chosen, drawn = chosen_answers(WHOLE, sampled(7), ())
    assert len(set(ids(chosen))) == 7 and ids(chosen) == ids(chosen, "new")
    assert [test.id for test in chosen.tests[DIMENSION]] == ids(chosen)
    assert (drawn[DIMENSION].tests, drawn[DIMENSION].of) == (7, 40)


def test_a_draw_depends_on_the_seed_and_not_on_the_order_of_rows_or_on_other_tests() -> None:
    chosen, drawn = chosen_answers(WHOLE, sampled(7), ())
    shuffled = [row for rows in WHOLE.responses.values() for row in rows]
    for seed in range(5):
        Random(seed).shuffle(shuffled)
        again, the_same = chosen_answers(found(shuffled, Random(seed).sample(TESTS, len(TESTS))), sampled(7), ())
        assert sorted(ids(again)) == sorted(ids(chosen)) and the_same == drawn
    larger, _ = chosen_answers(WHOLE, sampled(20), ())
    assert set(ids(chosen)) < set(ids(larger))
    others = {tuple(sorted(ids(chosen_answers(WHOLE, sampled(7, seed), ())[0]))) for seed in range(20)}
    assert len(others) == 20
    more = [*TESTS, *(query(n) for n in range(40, 60))]
    kept = set(ids(chosen_answers(found(map(answer, more), more), sampled(7), ())[0])) & {t.id for t in TESTS}
    assert kept <= set(ids(chosen))


def test_every_test_is_drawn_as_often_as_any_other() -> None:
    """By 600 seeds each of 40 tests is drawn some 105 times; six standard deviations are 56."""
    times = dict.fromkeys((test.id for test in TESTS), 0)
    for seed in range(600):
        for id in ids(chosen_answers(WHOLE, sampled(7, seed), ())[0]):
            times[id] += 1
    assert sum(times.values()) == 4200 and min(times.values()) > 49 and max(times.values()) < 161


def test_tests_that_all_subjects_have_come_first_and_a_failed_answer_is_one() -> None:
    rows = [answer(test) for test in TESTS]
    rows += [answer(test, "new", State.FAILED if n else State.OK) for n, test in enumerate(TESTS[:5])]
    six, drawn = chosen_answers(found(rows, TESTS), sampled(6), ())
    assert {test.id for test in TESTS[:5]} < set(ids(six)) and len(ids(six)) == 6
    assert len(ids(six, "new")) == 5 and drawn[DIMENSION].tests == 6
    four, _ = chosen_answers(found(rows, TESTS), sampled(4), ())
    assert set(ids(four)) < {test.id for test in TESTS[:5]} and len(ids(four, "new")) == 4


def test_all_tests_are_taken_where_fewer_are_there_and_dimensions_are_apart() -> None:
    few = [query(n, OTHER) for n in range(3)]
    chosen, drawn = chosen_answers(found(map(answer, [*TESTS, *few]), [*TESTS, *few]), sampled(7), ())
    assert len(ids(chosen)) == 7 and len(ids(chosen, dimension=OTHER)) == 3
    told = describe_sample(sampled(7), drawn)
    sizes = "3 of 3 tests of ask_clarifying_questions; 7 of 40 tests of encourage_learning"
    assert told == f"responses: {sizes}, drawn by test, seed 0"


def test_only_rated_answers_are_read_that_a_person_has_rated() -> None:
    own, other = response_digest("old on encourage_learning-1"), response_digest("another answer")
    ratings = [
        rating(TESTS[0].id),
        rating(TESTS[0].id),
        rating(TESTS[1].id, digest=own),
        rating(TESTS[2].id, digest=other),
        rating(TESTS[3].id, Rater.PUBLISHED),
        rating(TESTS[4].id, subject="nobody"),
        replace(rating(TESTS[5].id), score=None, failed="did not finish"),
        rating("of no test"),
        replace(rating(TESTS[6].id), texts=TESTS[7].id),
    ]
    chosen, drawn = chosen_answers(WHOLE, given(only="rated"), ratings)
    assert ids(chosen) == [TESTS[0].id, TESTS[1].id] and ids(chosen, "new") == []
    assert [test.id for test in chosen.tests[DIMENSION]] == ids(chosen)
    assert describe_sample(given(only="rated"), drawn) == (
        "responses: 2 of 40 tests a dimension, only answers that people rated"
    )
    more, other_draw = chosen_answers(WHOLE, given(only="rated"), [*ratings, rating(TESTS[0].id, subject="new")])
    assert ids(more, "new") == [TESTS[0].id] and other_draw != drawn


def test_a_sample_of_the_rated_answers_is_drawn_among_their_tests() -> None:
    ratings = [rating(test.id) for test in TESTS[:10]]
    both = given(only="rated", sample={"per_dimension": 4})
    chosen, drawn = chosen_answers(WHOLE, both, ratings)
    assert len(ids(chosen)) == 4 and set(ids(chosen)) < {test.id for test in TESTS[:10]}
    told = describe_sample(both, drawn)
    assert told == "responses: 4 of 40 tests a dimension, drawn by test, seed 0, only answers that people rated"


def test_tests_of_dimensions_without_answers_stay() -> None:
    apart = [query(n, OTHER) for n in range(3)]
    chosen, drawn = chosen_answers(replace(WHOLE, tests={**WHOLE.tests, OTHER: apart}), sampled(7), ())
    assert chosen.tests[OTHER] == apart and set(drawn) == {DIMENSION}


def test_what_is_drawn_is_the_same_in_every_version() -> None:
    """A run that another version has started must draw the tests that it drew."""
    _, drawn = chosen_answers(WHOLE, sampled(7), ())
    first = sorted((test.id for test in TESTS), key=lambda id: sha256(f"0\n\n{id}".encode()).digest())[:7]
    digest = sha256("\n\n".join(sorted(first)).encode()).hexdigest()
    assert drawn == {DIMENSION: Drawn(tests=7, of=40, sha256=digest)}
    assert digest.startswith("a96eeb52")


@pytest.mark.parametrize("wrong", [{"per_dimension": 0}, {"by": "row", "per_dimension": 3}, {}, {"per_dimension": 2.5}])
def test_a_sample_that_cannot_be_drawn_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        given(sample=wrong)
