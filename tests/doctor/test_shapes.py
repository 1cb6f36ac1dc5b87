"""How two answers differ, in words: their shapes and sums, and answers that are no answer at all, which end nothing."""

from dataclasses import replace
from typing import Any

import pytest

from hab_ray.doctor.comparison import compare, wrong_sums
from hab_ray.doctor.examination import Examined
from hab_ray.doctor.shapes import changes, shape
from hab_ray.doctor.tap import Exchange
from hab_ray.providers import anthropic, google, openai, xai
from hab_ray.providers.vendor import WireProtocol

OURS: dict[str, Any] = {
    "id": "x",
    "n": 3,
    "ratio": 0.5,
    "none": None,
    "empty": "",
    "list": [{"text": "a", "at": 1}],
    "in": {"a": 1, "b": "two"},
}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({}, ()),
        ({"ratio": 1, "none": {"any": 1}, "empty": None}, ()),
        ({"id": None}, ("`id` is null, where the simulator has a text",)),
        ({"n": "3"}, ("`n` is a text, where the simulator has a whole number",)),
        ({"n": 2.5}, ("`n` is a number, where the simulator has a whole number",)),
        ({"n": True}, ("`n` is true or false, where the simulator has a whole number",)),
        ({"n": -2}, ("`n` is negative: -2",)),
        ({"n": -(10**400)}, (f"`n` is negative: -1{'0' * 58}",)),
        ({"list": []}, ("`list` is empty",)),
        ({"list": ["a"]}, ("`list[]` is a text, where the simulator has an object",)),
        ({"list": [{"text": "a", "at": 1}, {"text": "b"}]}, ("`list[].at` is missing in some",)),
        ({"in": {"a": 1, "c": "two"}}, ("`in.b` is `in.c` instead",)),
        ({"in": {"a": 1, "b": "two", "deep": {"id": "x"}}, "id": ...}, ("`id` is `in.deep.id` instead",)),
        ({"in": ...}, ("no `in`",)),
        ({"none": ...}, ()),
    ],
)
def test_a_difference_is_named(change: dict[str, Any], named: tuple[str, ...]) -> None:
    theirs = {name: value for name, value in {**OURS, **change}.items() if value is not ...}
    changed, _ = changes(shape([theirs]), shape([OURS]))
    assert tuple(each.words for each in changed) == named


def test_fields_that_the_simulator_sends_sometimes_may_be_missing_and_new_ones_are_news() -> None:
    assert changes(shape([{"a": 1, "new": {"b": 1}}]), shape([{"a": 1, "c": 2}, {"a": 1}])) == ([], ["new"])


@pytest.mark.parametrize(
    ("protocol", "usage", "is_wrong"),
    [
        (openai.PROTOCOL, {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, False),
        (openai.PROTOCOL, {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 8}, True),
        (openai.PROTOCOL, {"input_tokens": 5, "output_tokens": 2, "total_tokens": 8}, True),
        (openai.PROTOCOL, {"prompt_tokens": 5, "total_tokens": 5}, False),
        (openai.PROTOCOL, {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}, True),
        (
            xai.PROTOCOL,
            {
                "prompt_tokens": 12,
                "completion_tokens": 1,
                "total_tokens": 241,
                "completion_tokens_details": {"reasoning_tokens": 228},
            },
            False,
        ),
        (google.PROTOCOL, {"promptTokenCount": 5, "thoughtsTokenCount": 3, "totalTokenCount": 8}, False),
        (google.PROTOCOL, {"promptTokenCount": 5, "thoughtsTokenCount": 3, "totalTokenCount": 9}, True),
        (anthropic.PROTOCOL, {"output_tokens": 1, "output_tokens_details": {"thinking_tokens": 2}}, True),
    ],
)
def test_sums_of_usage(protocol: WireProtocol, usage: dict[str, Any], is_wrong: bool) -> None:
    assert bool(list(wrong_sums(protocol, {"lines": [{"usage": usage}]}))) == is_wrong


SAID = Exchange("judge m", "lab", "x/lab", "POST", "chat", {}, "{}", 200, {"x-request-id": "1"}, '{"a": 1}', 0.1)


def differences(theirs: Exchange) -> list[str]:
    at_vendor, at_simulator = Examined([theirs]), Examined([SAID])
    found = compare(at_vendor, at_simulator, {"lab": openai.PROTOCOL}, {})
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
    found = compare(Examined([SAID]), Examined([refused]), {"lab": openai.PROTOCOL}, {})
    assert found.differences == [] and "refused by the simulator" in found.notes[0].what
    wrong = replace(SAID, body='{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 9}')
    found = compare(Examined([wrong]), Examined([wrong]), {"lab": openai.PROTOCOL}, {})
    assert found.differences == []


def test_no_answer_another_status_and_a_missing_header_are_named() -> None:
    assert differences(SAID) == []
    gone = differences(replace(SAID, status=None, body="", headers={}, problem="connection refused"))
    assert gone == ["no answer (connection refused), where the simulator answers 200"]
    assert differences(replace(SAID, headers={})) == ["no header `x-request-id`"]
    assert differences(replace(SAID, status=429, body="{}"))[0].startswith("HTTP 429, where the simulator answers 200")
