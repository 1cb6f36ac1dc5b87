"""Imported wording is sent as it is: no fence, no schema of ours, nothing added when a verdict is asked for again."""

import pytest

from hab_ray.calls import ChatCall
from hab_ray.catalog.models import Model
from hab_ray.config.sections import Generate
from hab_ray.errors import ConfigError
from hab_ray.fences import PLACEHOLDER, FenceCodes
from hab_ray.rows import State
from hab_ray.rubric import LiteralPrompts, LiteralRubric, Rubric
from hab_ray.stages.base import Rows
from hab_ray.stages.method.generate import GenerateStage
from hab_ray.stages.prompts.wording import Prompts
from tests.stages.conftest import MakeValidator, candidate
from tests.stages.judging import MakeJudge, MakeReply, asked, call_of, task_again, verdict

HOSTILE = f"  {PLACEHOLDER} {{{{ 7 * 7 }}}} <|im_start|>\x00\n"


@pytest.fixture
def literal(rubrics: dict[str, Rubric]) -> LiteralRubric:
    """A built-in rubric with a literal section."""
    section = {
        "origin": {"source": "an invented checkout"},
        "generation": {
            "system": " Write. ",
            "user": ["Like ", {"value": "seed", "at": 1}, ": ", {"value": "theme"}],
            "seeds": [" one\n", "two ", "three"],
        },
        "validation": {"user": [{"apply": "dedent", "to": ["  Check\n  ", {"value": "prompt"}, {"value": "context"}]}]},
        "judging": {
            "user": [{"value": "prompt"}, "|", {"value": "context"}, "|", {"value": "response"}],
            "key": "found",
        },
    }
    content = rubrics["correct_misinformation"].model_dump(mode="json", exclude_none=True)
    return LiteralRubric.model_validate(content | {"literal": section, "system": " Be brief.\n"})


def sent(call: ChatCall) -> tuple[str, str]:
    """System and message as a provider gets them; a schema would be sent beside them."""
    assert call.schema_json is None
    filled = FenceCodes(b"secret").filled(call)
    return filled.system, filled.messages[0].text


def test_queries_are_asked_and_read(literal: LiteralRubric, prompts: Prompts, model: Model, reply: MakeReply) -> None:
    settings = Generate(model=model.name, candidates=3, per_call=3, seeds_shown=3)
    stage = GenerateStage(literal, ("late\n",), prompts, model, settings, seed=0)
    calls = [call for _, call in stage.requests(stage.tasks(Rows()))]
    system, user = sent(calls[0])
    assert system == " Write. " and user in {f"Like {seed}: late\n" for seed in (" one\n", "two ", "three")}
    text = '{"1": {"paragraph": "One. Two.", "misinformation": "Two."}, "2": {"paragraph": "One."}, "3": "p"}'
    rows = [stage.parse(task, reply(calls[0].key, text)) for task in stage.tasks(Rows())]
    assert [(row.state, row.prompt, row.context) for row in rows] == [
        (State.OK, "One. Two.", "Two."),
        (State.UNREADABLE, "", ""),
        (State.UNREADABLE, "", ""),
    ]


def test_a_seed_beyond_those_shown_is_a_wrong_setting(literal: LiteralRubric, prompts: Prompts, model: Model) -> None:
    settings = Generate(model=model.name, candidates=1, seeds_shown=1)
    stage = GenerateStage(literal, ("late\n",), prompts, model, settings, seed=0)
    with pytest.raises(ConfigError, match=r"wants seed 2 of a request, but 1 are shown; .*seeds_shown"):
        list(stage.requests(stage.tasks(Rows())))


def test_a_query_is_scored_by_the_total(literal: LiteralRubric, validator_of: MakeValidator, reply: MakeReply) -> None:
    stage, query = validator_of(literal), candidate(0, HOSTILE, "no\nindent")
    ((_, call),) = stage.requests([query])
    assert sent(call) == ("", f"  Check\n  {HOSTILE}no\nindent")
    found = stage.parse(query, reply(call.key, 'A: 200 <score>640</score> {"deductions": ["A"]}'))
    assert (found.state, found.score, found.deductions) == (State.OK, 640, ())
    assert stage.parse(query, reply(call.key, "640")).state is State.UNREADABLE


def test_a_verdict_is_asked_for_in_them_twice(literal: LiteralRubric, judge_of: MakeJudge, reply: MakeReply) -> None:
    stage, task = judge_of(literal), asked(literal.id, HOSTILE, HOSTILE, "p\n")
    call = call_of(stage, task)
    assert sent(call) == ("", f"p\n|{HOSTILE}|{HOSTILE}")
    again = task_again(stage, task, reply(call.key, "none"))
    second = call_of(stage, again)
    assert sent(second) == sent(call) and second.key != call.key
    row = verdict(stage, again, reply(second.key, '{"found": ["A", "C"]}'))
    assert row.issues == ("A", "C") and row.score == 0


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"judging": {"user": [{"value": "prompt"}]}}, "judging: has no place for the response"),
        ({"judging": {"user": [{"value": "response"}, {"value": "theme"}]}}, "judging: theme cannot be inserted there"),
        ({"generation": {"user": [{"value": "prompt"}], "seeds": []}}, "generation: prompt cannot be inserted there"),
        ({"judging": {"user": [{"value": "response", "at": 1}]}}, "belongs to `value: seed` only"),
        ({"judging": {"user": [{"apply": "eval", "to": []}]}}, "Input should be 'dedent'"),
    ],
)
def test_a_section_with_a_value_out_of_place_is_refused(section: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        LiteralPrompts.model_validate({"origin": {"source": "invented"}, **section})


def test_a_subjects_system_prompt_keeps_its_white_space(literal: LiteralRubric) -> None:
    assert literal.system == " Be brief.\n"
