"""What is embedded, and what counts as a vector."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hab_ray.calls import Failure, Finish, Outcome, Reply
from hab_ray.catalog.models import Model
from hab_ray.config.sections import Select, Validate
from hab_ray.errors import FailureKind
from hab_ray.rows import Candidate, State, Validation
from hab_ray.stages.base import Rows
from hab_ray.stages.method.embed import EmbedStage
from tests.stages.conftest import candidates
from tests.stages.judging import DIMENSION

KEPT = Select(embedding="m", tests=1)


def test_without_validation_all_good_candidates_are_embedded_sorted_by_id(model: Model) -> None:
    rows = [*reversed(candidates(3)), Candidate("c9", DIMENSION, State.REJECTED, "x", "", "", "", "k")]
    assert [task.id for task in EmbedStage(model, KEPT).tasks(Rows({Candidate: rows}))] == ["c000", "c001", "c002"]


def test_with_validation_the_best_are_embedded(model: Model) -> None:
    rows = candidates(4)
    scores = zip(rows, (900, 100, 800, 850), strict=True)
    validations = [Validation(row.id, DIMENSION, State.OK, score, (), "", "k") for row, score in scores]
    stage = EmbedStage(model, KEPT, Validate(model="m", keep=2))
    assert [task.id for task in stage.tasks(Rows({Candidate: rows, Validation: validations}))] == ["c000", "c003"]


def test_line_breaks_are_embedded_as_spaces_where_the_sweep_asks_for_it(model: Model) -> None:
    task = replace(candidates(1)[0], prompt="one\n\ntwo\r\nthree")
    texts = {"keep": "one\n\ntwo\r\nthree", "space": "one  two\r three"}
    for newlines, text in texts.items():
        stage = EmbedStage(model, Select.model_validate({"embedding": "m", "tests": 1, "newlines": newlines}))
        ((_, call),) = stage.requests([task])
        assert call.text == text


def test_a_vector_comes_through_and_what_is_none_is_a_state(model: Model, reply: Callable[..., Reply]) -> None:
    stage, task = EmbedStage(model, KEPT), candidates(1)[0]
    ((row_id, call),) = stage.requests([task])
    assert (row_id, call.text, call.provider, call.model) == ("c000", "prompt 0", "vendor", "some-model")
    vector = np.array([1.5, -2.0], "<f4").tobytes()
    row = stage.parse(task, reply("k", vector=vector))
    assert (row.state, row.vector, row.candidate_id) == (State.OK, vector, "c000")
    outcomes: dict[State, Outcome] = {
        State.FAILED: Failure("k", FailureKind.TOO_LONG, attempts=1, message="too long"),
        State.EMPTY: reply("k", "", Finish.EMPTY),
        State.SUBSTITUTED: reply("k", vector=vector, model="other"),
        State.UNREADABLE: reply("k", vector=np.array([1.0, np.nan], "<f4").tobytes()),
    }
    for state, outcome in outcomes.items():
        row = stage.parse(task, outcome)
        assert (row.state, row.vector) == (state, b"")
        assert row.reason
    assert stage.parse(task, reply("k", vector=vector[:-1])).state is State.UNREADABLE
