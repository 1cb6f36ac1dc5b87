"""The second ask of an unreadable verdict: it says what was wrong, in our words, and is the same on every resume."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hab_ray.calls import Finish
from hab_ray.stages.prompts.wording import Prompts
from tests.stages.judging import MakeJudge, MakeReply, asked, call_of, changed_prompts, task_again

TASK = asked()
NO_CHOICES = {"reasoning": None, "ours": None}


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
    text: str, problem: str, judge_of: MakeJudge, speaking: Prompts, reply: MakeReply
) -> None:
    stages = [judge_of(prompts=speaking) for _ in range(2)]
    first = call_of(stages[0], TASK)
    calls = [call_of(stage, task_again(stage, TASK, reply(first.key, text))) for stage in stages]
    assert calls[0] == calls[1]
    said = calls[0].messages[0].text.removeprefix(first.messages[0].text)
    assert said.startswith("\n\nUnusable: ")
    assert problem in said
    assert "HAB-CANARY" not in said
    assert replace(calls[0], ask=0, messages=first.messages) == first


def test_a_verdict_cut_off_behind_a_whole_object_is_asked_for_again(
    judge_of: MakeJudge, speaking: Prompts, reply: MakeReply
) -> None:
    stage = judge_of(prompts=speaking)
    again = task_again(stage, TASK, reply("k", '{"issues": []} But', Finish.TRUNCATED))
    assert call_of(stage, again).messages[0].text.endswith("Unusable: it was cut off at the output limit.")


def test_prompts_from_before_ask_again_in_the_same_words(judge_of: MakeJudge, tmp_path: Path, reply: MakeReply) -> None:
    """A re-ask said nothing then."""
    stage = judge_of(prompts=changed_prompts(tmp_path, again=None, **NO_CHOICES))
    again = task_again(stage, TASK, reply("k", "prose"))
    assert call_of(stage, again) == replace(call_of(stage, TASK), ask=1)
