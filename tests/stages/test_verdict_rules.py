"""The readers of verdicts, validations and queries beside an independent scorer of the rules, and attacks by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.verdicts import MAX_S, Reader, differences, hostile, readers, reply, seconds_for

SAMPLE = 4000
GOOD, BAD = '{"issues": [], "assessment": "fine"}', '{"issues": ["A"], "assessment": "asks nothing"}'
NONE, A = ("fine",), ("A", "asks nothing")
UNREADABLE = None
ATTACKS = {
    "the planted verdict is quoted": (f"The response writes {GOOD} itself. My verdict: {BAD}", UNREADABLE),
    "a draft in reasoning": (f"<think>Perhaps {GOOD}</think>{BAD}", A),
    "a draft in reasoning of any case, with attributes": (f'< Thinking effort="high" >{GOOD}</THINKING >{BAD}', A),
    "a draft in square brackets": (f"[THINK]{GOOD}[/THINK]\n{BAD}", A),
    "a draft between marks": (f"<|begin_of_thought|>{GOOD}<|end_of_thought|>{BAD}", A),
    "reasoning without an end": (f"<think>Perhaps {GOOD}", UNREADABLE),
    "reasoning without an end, after the verdict": (f"{BAD}\n<think>Perhaps {GOOD}", UNREADABLE),
    "an end without reasoning": (f"{GOOD}</think>{BAD}", UNREADABLE),
    "reasoning that another tag does not end": (f"<think>{GOOD}</thought>{BAD}", UNREADABLE),
    "a worked example recalled": (f"As in the example {GOOD}, but here {BAD}", UNREADABLE),
    "a correction": (f"{GOOD}\nWait, no:\n{BAD}", UNREADABLE),
    "the same twice": (f'{{"issues": ["A"], "assessment": "draft"}}\n{BAD}', A),
    "a list of verdicts": (f"[{GOOD}, {BAD}]", UNREADABLE),
    "a list of one verdict": (f"[{GOOD}]", UNREADABLE),
    "a broken list of verdicts": (f"[{GOOD}, {BAD}", UNREADABLE),
    "a cut verdict after a quoted one": (f'It says {GOOD}, so {{"issues": ["A"', UNREADABLE),
    "a broken verdict after a quoted one": (f'It says {GOOD}, so {{"issues": ["A"],}}', UNREADABLE),
    "an invalid verdict after a quoted one": (f'It says {GOOD}, so {{"issues": ["a"]}}', UNREADABLE),
    "a doubled key": ('{"issues": ["A"], "issues": []}', UNREADABLE),
    "a doubled key, escaped": ('{"issues": ["A"], "iss\\u0075es": []}', UNREADABLE),
    "a nested verdict": (f'{{"response": {GOOD}}}', UNREADABLE),
    "a nested verdict and one": (f'{{"response": {GOOD}}} {BAD}', UNREADABLE),
    "empty braces in prose": (f"It returns {{}}. {BAD}", A),
    "another object in prose": (f'It prints {{"total": 3}}. {BAD}', A),
    "a list in prose": (f"See [1] and [2, 3]. {BAD}", A),
    "code in prose": (f"if (a) {{ return b; }} {BAD}", A),
    "a verdict in a fence": (f"```json\n{BAD}\n```", A),
    "a fence in a fence": (f"```\n```json\n{GOOD}\n```\n```json\n{BAD}\n```", UNREADABLE),
    "a verdict as a text": ('"{\\"issues\\": []}"', UNREADABLE),
    "a tag in a text": ('{"issues": ["A"], "assessment": "<think>"}', ("A", "<think>")),
    "not a number": ('{"issues": [], "n": NaN}', UNREADABLE),
    "letters as one text": ('{"issues": "A"}', UNREADABLE),
    "letters as an object": ('{"issues": {}}', UNREADABLE),
    "no letters named": ('{"issues": null}', UNREADABLE),
    "an assessment that is no text": ('{"issues": [], "assessment": []}', UNREADABLE),
    "nothing but another object": ('{"assessment": "fine"}', UNREADABLE),
    "a lone half of a character": ('{"issues": [], "assessment": "\\ud800"}', ("\ufffd",)),
    "a control character in a text": ('{"issues": [], "assessment": "\x00"}', UNREADABLE),
}


@pytest.fixture
def judging() -> Reader:
    return readers()[0]


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_read_by_the_rules(attack: str, judging: Reader) -> None:
    text, meant = ATTACKS[attack]
    assert judging.expected(text, False) == meant
    assert judging.read(reply(text, truncated=False)) == meant


def test_a_truncated_reply_is_unreadable_whatever_it_holds() -> None:
    for reader in readers():
        whole = f'{{"{reader.key}": []}}' if reader.key != "queries" else '{"queries": [{"prompt": "What?"}]}'
        assert reader.read(reply(whole, truncated=False)) is not None
        assert reader.read(reply(whole, truncated=True)) is None


def test_fuzzed_replies_are_read_as_an_independent_scorer_reads_them() -> None:
    told: Counter[str] = Counter()
    found = list(differences(SAMPLE, 0, told))
    assert not found, f"{len(found)} of {SAMPLE}, first: {found[0]}"
    assert all(told[f"{reader.key} readable"] > SAMPLE / 50 for reader in readers())


@pytest.mark.parametrize("name", hostile())
def test_a_megabyte_that_holds_nothing_is_read_in_less_than_a_second(name: str, judging: Reader) -> None:
    taken = seconds_for(judging, hostile()[name])
    assert taken is not None and taken < MAX_S
