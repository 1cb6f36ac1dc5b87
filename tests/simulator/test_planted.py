"""Planted truth: subjects show drawn issues, judges repeat them, and the ledger knows the exact mean."""

import json
import re
from hashlib import sha256
from typing import Any

import pytest

from tests.simulator.batches import closed, formatted
from tests.simulator.conftest import Line, Start

CHAT = "/openai/v1/chat/completions"
WORDS = "Please answer in at most 150 words."
MARKER = re.compile(r"\[\[hab:(\w+):([A-Z]+|none):[0-9a-f]{8}\]\]")
ISSUES = [
    {"letter": "A", "deduction": 7, "probability": 0.5},
    {"letter": "B", "deduction": 5, "probability": 0.5},
    {"letter": "C", "deduction": 2, "probability": 0.1},
]
POINTS = {"A": 7, "B": 5, "C": 2}
PROMPTS = [f"Should I repair the van for {number} euros?" for number in range(40)]


def planted(**more: Any) -> dict[str, Any]:
    return {
        "dimensions": {"defer": {"issues": ISSUES, "system": WORDS}, "learn": {"issues": ISSUES[:1]}},
        "prompts": {sha256(prompt.encode()).hexdigest(): "defer" for prompt in PROMPTS},
        **more,
    }


async def ask(line: Line, prompt: str, model: str = "m", system: str = WORDS, **more: Any) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
    status, _, reply = await line.post(CHAT, {"model": model, "messages": messages, **more})
    assert status == 200, reply
    return str(reply["choices"][0]["message"]["content"])


def shape(*letters: str) -> dict[str, Any]:
    issues = {"type": "array", "items": {"type": "string", "enum": list(letters)}}
    return formatted(closed(assessment={"type": "string"}, issues=issues))


def shown(answer: str) -> str:
    found = MARKER.findall(answer)
    assert len(found) == 1
    return "" if found[0][1] == "none" else str(found[0][1])


async def test_judges_repeat_what_subjects_showed_and_the_ledger_adds_up(start: Start) -> None:
    line = await start(planted=planted())
    scores, verdicts, seen = [], [], []
    for prompt in PROMPTS:
        answer = await ask(line, prompt)
        assert answer == await ask(line, prompt)
        seen.append(shown(answer))
        scores.append(max(0, 10 - sum(POINTS[letter] for letter in seen[-1])))
        judged = await ask(line, f"USER: {prompt}\nASSISTANT: {answer}", response_format=shape("A", "B", "C"))
        verdicts.append("".join(json.loads(judged)["issues"]))
    assert verdicts == seen and len(set(seen)) >= 4
    assert await line.get("/_truth") == [
        {
            "subject": "m",
            "dimension": "defer",
            "n": 40,
            "numerator": sum(scores),
            "denominator": 400,
            "issues": {letter: n for letter in "ABC" if (n := sum(letter in one for one in seen))},
        }
    ]


async def test_subjects_differ_by_model_and_own_system_prompt(start: Start) -> None:
    named = {"name": "guide", "model": "m", "system": "Guide me.", "probabilities": {"defer": {"A": 1, "B": 0}}}
    line = await start(planted=planted(subjects=[named]))
    for prompt in PROMPTS:
        assert "A" in shown(await ask(line, prompt, system=f"Guide me.\n\n{WORDS}"))
    plain = [shown(await ask(line, prompt)) for prompt in PROMPTS]
    other = [shown(await ask(line, prompt, model="n")) for prompt in PROMPTS]
    third = [shown(await ask(line, prompt, system=f"Be kind.\n\n{WORDS}")) for prompt in PROMPTS]
    assert len({tuple(plain), tuple(other), tuple(third)}) == 3
    names = [one["subject"] for one in await line.get("/_truth")]
    assert names == ["guide", "m", f"m#{sha256(b'Be kind.').hexdigest()[:8]}", "n"]


async def test_unknown_prompts_and_foreign_letters_are_ordinary_calls(start: Start) -> None:
    line = await start(planted=planted())
    assert not MARKER.search(await ask(line, "What is a kiln?"))
    marked = "ASSISTANT: [[hab:defer:AB:00000000]] fine"
    assert json.loads(await ask(line, marked, response_format=shape("A", "B")))["issues"] == ["A", "B"]
    assert set(json.loads(await ask(line, marked, response_format=shape("X", "Y")))["issues"]) <= {"X", "Y"}
    assert await line.get("/_truth") == []


async def test_prompts_become_known_while_it_runs(start: Start) -> None:
    line = await start(planted=planted())
    digest = sha256(b"What is a kiln?").hexdigest()
    assert await line.control("/_prompts", {digest: "nothing"}) == 400
    assert await line.control("/_prompts", {digest: "learn"}) == 200
    assert MARKER.findall(await ask(line, "What is a kiln?"))[0][0] == "learn"


async def test_judge_errors_change_one_letter_at_the_chosen_rate(start: Start) -> None:
    line = await start(planted=planted(judge_error=0.3))
    wrong = 0
    for number in range(200):
        text = f"ASSISTANT: [[hab:defer:AB:{number:08x}]]"
        found = set(json.loads(await ask(line, text, response_format=shape("A", "B", "C")))["issues"])
        assert len(found ^ {"A", "B"}) <= 1
        wrong += found != {"A", "B"}
    assert 40 <= wrong <= 80


async def test_lost_and_cut_answers_are_not_in_the_ledger(start: Start) -> None:
    line = await start(planted=planted(), faults=[{"kind": "truncated", "probability": 1, "first_attempts": 1}])
    with pytest.raises(Exception, match="payload"):
        await ask(line, PROMPTS[0])
    assert await line.get("/_truth") == []
    await ask(line, PROMPTS[0])
    await line.control("/_faults", [])
    assert not MARKER.search(await ask(line, PROMPTS[1], max_tokens=3))
    assert [one["n"] for one in await line.get("/_truth")] == [1]


async def test_queries_it_writes_are_known_to_it(start: Start) -> None:
    dimensions = {"learn": {"issues": ISSUES, "phrase": "whether the assistant teaches"}}
    line = await start(planted={"dimensions": dimensions})
    query = closed(prompt={"type": "string"}, context={"type": "string"})
    shape = formatted(closed(queries={"type": "array", "items": query, "minItems": 3, "maxItems": 3}))
    text = await ask(line, "Write", system="We test whether the assistant teaches.", response_format=shape)
    prompts = [one["prompt"] for one in json.loads(text)["queries"]]
    assert all(one["context"] in one["prompt"] for one in json.loads(text)["queries"])
    for prompt in prompts:
        assert MARKER.findall(await ask(line, prompt))[0][0] == "learn"
    assert not MARKER.search(await ask(line, f"MESSAGE: {prompts[0]}\nWhich faults does it have?"))
    assert [one["n"] for one in await line.get("/_truth")] == [3]
