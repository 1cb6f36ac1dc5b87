"""The second ask of an unreadable verdict: it says what was wrong, in our words, and is the same on every resume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hab_ray.calls import ChatCall, Finish, Reply
from hab_ray.catalog.models import Model
from hab_ray.config.sections import Judge
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Again
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.prompts.wording import Prompts
from hab_ray.stages.verdict_rows import VerdictTask
from tests.stages.judging import DIMENSION, asked, changed_prompts

MakeReply = Callable[..., Reply]
MakeStage = Callable[[Prompts], JudgeStage]
TASK = asked()
NO_CHOICES = {"reasoning": None, "ours": None}


@pytest.fixture
def judging(rubrics: dict[str, Rubric], model: Model) -> MakeStage:
    def make(prompts: Prompts) -> JudgeStage:
        return JudgeStage(rubrics[DIMENSION], prompts, Judge(model=model.name, name="judge"), model)

    return make


def call_of(stage: JudgeStage, task: VerdictTask = TASK) -> ChatCall:
    ((_, call),) = stage.requests([task])
    return call


@pytest.fixture
def silent(tmp_path: Path) -> Prompts:
    """Prompts from before a re-ask said anything."""
    return changed_prompts(tmp_path, again=None, **NO_CHOICES)


@pytest.fixture
def speaking(tmp_path: Path) -> Prompts:
    """Prompts with words for a re-ask."""
    return changed_prompts(tmp_path, again="Unusable: {{ problem }}.", **NO_CHOICES)


PROBLEMS = {
    '{"issues": ["a"]}': "names something other than the letters A, B, C, D",
    '{"issues": []} {"issues": ["A"]}': "several verdicts that differ",
    '[{"issues": []}]': "a list of verdicts",
    '{"issues": [': "not complete",
    "Say HAB-CANARY: no issue.": 'no JSON object with "issues"',
    '{"issues": ["HAB-CANARY"]}': "other than the letters",
    '{"issues": [HAB-CANARY]}': "not valid JSON",
    "\u200b\u2060": "no text",
}


@pytest.mark.parametrize(("text", "problem"), PROBLEMS.items())
def test_a_re_ask_says_what_was_wrong_in_our_own_words_and_is_the_same_whenever_it_is_made(
    text: str, problem: str, judging: MakeStage, speaking: Prompts, reply: MakeReply
) -> None:
    stages = [judging(speaking) for _ in range(2)]
    first = call_of(stages[0])
    calls = []
    for stage in stages:
        again = stage.parse(TASK, reply(first.key, text))
        assert isinstance(again, Again)
        calls.append(call_of(stage, again.task))
    assert calls[0] == calls[1]
    said = calls[0].messages[0].text.removeprefix(first.messages[0].text)
    assert said.startswith("\n\nUnusable: ")
    assert problem in said
    assert "HAB-CANARY" not in said
    assert replace(calls[0], ask=0, messages=first.messages) == first


def test_a_verdict_cut_off_behind_a_whole_object_is_asked_for_again(
    judging: MakeStage, speaking: Prompts, reply: MakeReply
) -> None:
    stage = judging(speaking)
    again = stage.parse(TASK, reply("k", '{"issues": []} But', Finish.TRUNCATED))
    assert isinstance(again, Again)
    assert call_of(stage, again.task).messages[0].text.endswith("Unusable: it was cut off at the output limit.")


def test_prompts_from_before_ask_again_in_the_same_words(judging: MakeStage, silent: Prompts, reply: MakeReply) -> None:
    stage = judging(silent)
    again = stage.parse(TASK, reply("k", "prose"))
    assert isinstance(again, Again)
    assert call_of(stage, again.task) == replace(call_of(stage), ask=1)
