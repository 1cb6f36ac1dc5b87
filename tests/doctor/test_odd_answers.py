"""Answers that are no answer at all are named, and none of them ends the doctor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hab_ray.doctor.comparison import Recording, compare
from hab_ray.doctor.examination import Examined
from hab_ray.doctor.recording import Exchange
from hab_ray.providers.openai import PROTOCOL

SAID = Exchange("judge m", "lab", "x/lab", "POST", "chat", {}, "{}", 200, {"x-request-id": "1"}, '{"a": 1}', 0.1)


def differences(theirs: Exchange) -> list[str]:
    at_vendor, at_simulator = Recording([theirs], Examined()), Recording([SAID], Examined())
    found = compare(at_vendor, at_simulator, {"lab": PROTOCOL}, {})
    return [one.what for one in found.differences]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("", "an empty body"),
        ("null", "not a JSON object: null"),
        ("[]", "not a JSON object: []"),
        ("[" * 900 + "]" * 900, "not JSON: [[["),
        ('{"a":' * 500 + "1" + "}" * 500, "not JSON: "),
        ('{"a":' + "9" * 5000 + "}", "not JSON: "),
        ('{"a": -1e999}', "`a` is negative: -inf"),
        ("\x00\x1b[31mred", "not JSON: [U+0000][U+001B][31mred"),
        ("<html>", "a web page instead of an answer"),
    ],
)
def test_an_odd_body_is_named(body: str, named: str) -> None:
    assert any(one.startswith(named) for one in differences(replace(SAID, body=body)))


def test_what_the_simulator_alone_does_wrong_is_not_the_vendors() -> None:
    refused = replace(SAID, status=400, body='{"error": {}}')
    found = compare(Recording([SAID], Examined()), Recording([refused], Examined()), {"lab": PROTOCOL}, {})
    assert found.differences == [] and "refused by the simulator" in found.notes[0].what
    wrong = replace(SAID, body='{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 9}')
    found = compare(Recording([wrong], Examined()), Recording([wrong], Examined()), {"lab": PROTOCOL}, {})
    assert found.differences == []


def test_no_answer_another_status_and_a_missing_header_are_named() -> None:
    assert differences(SAID) == []
    gone = differences(replace(SAID, status=None, body="", headers={}, problem="connection refused"))
    assert gone == ["no answer (connection refused), where the simulator answers 200"]
    assert differences(replace(SAID, headers={})) == ["no header `x-request-id`"]
    assert differences(replace(SAID, status=429, body="{}"))[0].startswith("HTTP 429, where the simulator answers 200")
