"""What a judge is told to write before it names letters, and which notes it is told: two words in prompts.yaml."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hab_ray.calls import ChatCall
from hab_ray.catalog.models import Model
from hab_ray.errors import ConfigError
from hab_ray.rubric import Rubric
from hab_ray.stages.prompts.wording import Prompts, Reasoning
from tests.stages import judging
from tests.stages.judging import MakeJudge, call_of, changed_prompts

DIMENSION = "encourage_learning"
LETTERS = list("ABCDEF")
Change = Callable[..., Prompts]
Ask = Callable[..., ChatCall]


@pytest.fixture
def changed(tmp_path: Path) -> Change:
    return partial(changed_prompts, tmp_path)


@pytest.fixture
def asked(judge_of: MakeJudge) -> Ask:
    return lambda *wording: call_of(judge_of(DIMENSION, *wording), judging.asked(DIMENSION))


def fields(call: ChatCall) -> Mapping[str, Any]:
    assert call.schema_json is not None
    found: Mapping[str, Any] = json.loads(call.schema_json)["properties"]
    return found


def test_a_judge_thinks_about_every_issue_in_order_before_it_names_any(asked: Ask, prompts: Prompts) -> None:
    assert prompts.reasoning is Reasoning.PER_ISSUE
    call = asked(prompts)
    assert list(fields(call)) == ["assessment", "issues"]
    thoughts = fields(call)["assessment"]
    assert list(thoughts["properties"]) == thoughts["required"] == LETTERS
    assert thoughts["additionalProperties"] is False
    form = ", ".join(f'"{letter}": "your thoughts on {letter}"' for letter in LETTERS)
    assert f'{{"assessment": {{{form}}}, "issues": ["letters that apply"]}}' in call.system


def test_brief_asks_for_one_text(asked: Ask, prompts: Prompts, changed: Change) -> None:
    brief = changed(reasoning="brief")
    call = asked(brief)
    assert fields(call)["assessment"] == {"type": "string"}
    assert '{"assessment": "one or two sentences", "issues"' in call.system and "one by one" not in call.system
    assert brief.sha256 != prompts.sha256 and call.key != asked(prompts).key
    assert fields(asked(changed(reasoning=None)))["assessment"] == {"type": "string"}


def test_bounded_strings_leave_room_for_thoughts_and_list(asked: Ask, prompts: Prompts, model: Model) -> None:
    bounded = replace(model, entry=model.entry.model_copy(update={"schema_bounds": ("strings", "lists")}))
    call = asked(prompts, bounded)
    lengths = [thought["maxLength"] for thought in fields(call)["assessment"]["properties"].values()]
    assert len(lengths) == len(LETTERS) and sum(lengths) <= call.params.max_tokens


def test_our_notes_can_be_left_out(asked: Ask, rubrics: dict[str, Rubric], prompts: Prompts, changed: Change) -> None:
    (note,) = rubrics[DIMENSION].judging.notes
    assert note.ours and note.why is not None
    assert note.text in asked(prompts).system and note.why not in asked(prompts).system
    assert note.text not in asked(changed(ours="leave_out")).system


@pytest.mark.parametrize(("key", "value"), [("reasoning", "long"), ("ours", "maybe"), ("resoning", "brief")])
def test_another_word_is_refused(key: str, value: str, changed: Change) -> None:
    with pytest.raises(ConfigError, match=rf"prompts\.yaml: judge\.{key}: not a prompts file"):
        changed(**{key: value})


def test_worked_examples_are_no_verdicts(asked: Ask, rubrics: dict[str, Rubric], prompts: Prompts) -> None:
    system = asked(prompts).system
    assert system.count('"issues"') == 1
    for example in rubrics[DIMENSION].judging.examples:
        assert f"Issues: {', '.join(example.issues) or 'none'}. {example.assessment}" in system
