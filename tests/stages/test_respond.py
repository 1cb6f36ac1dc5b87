"""What a subject is asked, with which settings, and what counts as its answer."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hab_ray.calls import ChatCall, Failure, Finish, Message, Outcome, Params, Role
from hab_ray.catalog.models import Model
from hab_ray.config.sections import Subject
from hab_ray.errors import FailureKind
from hab_ray.rows import ChosenTest, State
from hab_ray.stages.base import Forecast, Rows
from hab_ray.stages.method.respond import RespondStage
from tests.stages.judging import MakeReply

TEST = ChosenTest("t1", "ask_clarifying_questions", "What shall I do?", "", "At most 150 words.", 3)


def stage(model: Model, samples: int = 1, **subject: Any) -> RespondStage:
    return RespondStage(Subject.model_validate({"model": model.name, **subject}), model, "rubric", "prompts", samples)


def call_of(asking: RespondStage, test: ChosenTest = TEST) -> ChatCall:
    (_, call), *_ = asking.requests(asking.tasks(Rows({ChosenTest: [test]})))
    return call


@pytest.mark.parametrize(
    ("own", "dimension", "sent"),
    [
        ("Be kind.", "At most 150 words.", "Be kind.\n\nAt most 150 words."),
        ("", "At most 150 words.", "At most 150 words."),
        ("Be kind.", "", "Be kind."),
        ("", "", ""),
    ],
)
def test_the_subjects_system_prompt_goes_first(own: str, dimension: str, sent: str, model: Model) -> None:
    call = call_of(stage(model, system=own), replace(TEST, system=dimension))
    assert call.system == sent
    assert call.messages == (Message(Role.USER, "What shall I do?"),)
    assert call.schema_json is None


@pytest.mark.parametrize(
    ("capabilities", "params", "sent"),
    [
        ({}, {}, Params(1000, 0.0, 0.95)),
        ({}, {"max_tokens": 90, "temperature": 0.7, "effort": "low"}, Params(90, 0.7, 0.95)),
        ({"sampling": "temperature"}, {}, Params(1000, 0.0)),
        ({"sampling": "fixed"}, {"temperature": 1.0, "top_p": 0.5}, Params(1000)),
        ({"sampling": "fixed", "thinking": "always"}, {"effort": "low"}, Params(1000, effort="low")),
    ],
)
def test_settings_a_model_refuses_are_left_out_and_what_was_sent_is_kept(
    capabilities: dict[str, Any], params: dict[str, Any], sent: Params, model: Model, reply: MakeReply
) -> None:
    entry = type(model.entry).model_validate(model.entry.model_dump() | capabilities)
    asking = stage(replace(model, entry=entry), params=params)
    assert call_of(asking).params == sent
    kept = json.loads(asking.parse(asking.tasks(Rows({ChosenTest: [TEST]}))[0], reply("k", "x")).settings)
    names = ("max_tokens", "temperature", "top_p", "effort")
    assert kept == {n: v for n, v in zip(names, sent.canonical(), strict=True) if v is not None}


def test_samples_are_calls_of_their_own(model: Model) -> None:
    asking = stage(model, samples=3)
    tests = [TEST, replace(TEST, id="t2", prompt="And now?")]
    asked = list(asking.requests(asking.tasks(Rows({ChosenTest: tests}))))
    assert [row_id for row_id, _ in asked] == ["t1#0", "t1#1", "t1#2", "t2#0", "t2#1", "t2#2"]
    assert len({call.key for _, call in asked}) == 6
    assert asked[0][1] == call_of(stage(model))


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("Well, ", Finish.TRUNCATED),
        ("I cannot help with that.", Finish.OK),
        ("  leading and trailing \n", Finish.OK),
        ("\u2028\x00 \U0001f41d", Finish.OK),
    ],
)
def test_cut_answers_and_refusals_are_kept_as_said(text: str, finish: Finish, model: Model, reply: MakeReply) -> None:
    asking = stage(model, name="mine")
    row = asking.parse(asking.tasks(Rows({ChosenTest: [TEST]}))[0], reply("k", text, finish))
    assert (row.state, row.text, row.finish, row.reason) == (State.OK, text, str(finish), "")
    assert (row.test_id, row.subject, row.sample, row.model_reported, row.reply_key) == (
        "t1",
        "mine",
        0,
        "wire-name",
        "k",
    )


def test_what_is_no_answer_is_a_state_with_its_reason(model: Model, reply: MakeReply) -> None:
    asking = stage(model)
    task = asking.tasks(Rows({ChosenTest: [TEST]}))[0]
    failure = Failure("k", FailureKind.BAD_REQUEST, attempts=1, message="unsupported value")
    expected: list[tuple[Outcome, State, str]] = [
        (failure, State.FAILED, "bad_request: unsupported value"),
        (reply("k", "", Finish.TRUNCATED), State.EMPTY, "cut before any visible text"),
        (reply("k", " \n", Finish.EMPTY), State.EMPTY, "no text in the reply"),
        (reply("k", "\u200b\u2060\u00ad\u3164", Finish.OK), State.EMPTY, "no text in the reply"),
        (reply("k", "\u2800\x00", Finish.TRUNCATED), State.EMPTY, "cut before any visible text"),
        (reply("k", "", Finish.REFUSED), State.BLOCKED, "blocked by the vendor"),
        (reply("k", "policy", Finish.REFUSED), State.BLOCKED, "policy"),
        (reply("k", "hi", model="mini"), State.SUBSTITUTED, "answered by mini, asked wire-name"),
    ]
    for outcome, state, reason in expected:
        row = asking.parse(task, outcome)
        assert (row.state, row.reason, row.text) == (state, reason, "")


def test_one_model_under_two_names_is_asked_twice_only_where_the_asking_differs(model: Model) -> None:
    kind, plain = stage(model, name="kind", system="Be kind."), stage(model, name="plain")
    assert call_of(kind).key != call_of(plain).key
    assert call_of(stage(model, name="other")).key == call_of(plain).key


def test_calls_that_failed_do_not_shorten_the_responses_that_are_forecast(model: Model, reply: MakeReply) -> None:
    asking = stage(model)
    answered, failed, waiting = asking.tasks(Rows({ChosenTest: [replace(TEST, id=f"t{n}") for n in range(3)]}))
    failure = Failure("k", FailureKind.BAD_REQUEST, 1, "filtered")
    rows = [asking.parse(answered, reply("k", "word " * 400)), asking.parse(failed, failure)]
    (typical,) = asking.forecast_rows(Forecast([answered, failed, waiting]), rows, [waiting]).typical
    assert len(typical.text) == len("word " * 400)
