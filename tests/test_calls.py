"""Keys: what is one call, what is another, and that neither changes from version to version."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hab_ray.calls import (
    Call,
    ChatCall,
    EmbedCall,
    Message,
    Params,
    Role,
    decimal_text,
    from_json,
    has_visible_text,
    to_json,
)

GOLDEN = Path(__file__).with_name("golden_keys.json")
BASE = ChatCall(
    provider="openai",
    model="gpt-4.1",
    as_of=None,
    system="Be brief.",
    messages=(Message(Role.USER, "Hello"),),
    params=Params(max_tokens=1000, temperature=0.0, top_p=0.95),
)
SCHEMA = '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}'
GOLDEN_CALLS: dict[str, Call] = {
    "base": BASE,
    "other provider": replace(BASE, provider="azure"),
    "other model": replace(BASE, model="gpt-4o"),
    "moving alias": replace(BASE, as_of="2026-11"),
    "no system": replace(BASE, system=""),
    "two turns": replace(BASE, messages=(*BASE.messages, Message(Role.ASSISTANT, "Hi"), Message(Role.USER, "?"))),
    "temperature 1.4": replace(BASE, params=Params(1000, 1.4, 0.95)),
    "no temperature": replace(BASE, params=Params(1000, None, 0.95)),
    "no sampling": replace(BASE, params=Params(1000)),
    "effort": replace(BASE, params=Params(1000, effort="low")),
    "tiny temperature": replace(BASE, params=Params(1000, 1e-7, 0.95)),
    "many tokens": replace(BASE, params=Params(100_000, 0.0, 0.95)),
    "schema": replace(BASE, schema_json=SCHEMA),
    "sample": replace(BASE, sample=1),
    "re-ask": replace(BASE, ask=1),
    "unicode": replace(BASE, system="Zürich \u2028 \U0001f41d \u202e"),
    "lone surrogate": replace(BASE, system="a\ud800b"),
    "newlines": replace(BASE, messages=(Message(Role.USER, 'line\nline\r\n"quoted" \\ \t'),)),
    "embedding": EmbedCall("openai", "text-embedding-3-small", None, "Hello"),
    "embedding, short": EmbedCall("openai", "text-embedding-3-small", None, "Hello", 256),
}


def test_golden_keys_do_not_change() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert {name: call.key for name, call in GOLDEN_CALLS.items()} == golden
    assert len(set(golden.values())) == len(golden) == 20


def test_equal_numbers_are_one_temperature() -> None:
    keys = {replace(BASE, params=Params(1000, t, 0.95)).key for t in (0, 0.0, -0.0)}
    assert keys == {BASE.key}
    assert decimal_text(1) == decimal_text(1.0) == "1"
    assert decimal_text(1e22) == "1" + "0" * 22


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        _ = replace(BASE, params=Params(1000, bad)).key


def test_the_order_of_schema_fields_is_part_of_the_call() -> None:
    turned = '{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}'
    assert replace(BASE, schema_json=SCHEMA).key != replace(BASE, schema_json=turned).key


def test_a_lone_surrogate_is_sent_and_keyed_as_a_replacement_character() -> None:
    assert replace(BASE, system="a\ud800b").key == replace(BASE, system="a\ufffdb").key


INVISIBLE = [
    *("", " \t\r\n", "\u00a0\u2003\u3000", "\u2028\u2029", "\x00\x07\x1b", "\ufeff", "\u200b\u200c\u200d\u2060"),
    *("\u00ad", "\u3164", "\uffa0", "\u115f\u1160", "\u17b4\u17b5", "\u180e", "\u2800", "\u202a\u202e\u2066\u2069"),
    *("\u061c", "\U000e0001\U000e0041\U000e007f", "\ufe0f\U000e0100", "\u034f", "\u180b", "\u2061\u206a"),
    "\u2065\ufff0",
]


@pytest.mark.parametrize("text", INVISIBLE, ids=ascii)
def test_a_text_of_nothing_that_can_be_seen_is_empty_until_it_has_a_letter(text: str) -> None:
    assert not has_visible_text(text)
    assert not has_visible_text(text * 1000)
    for char in ("x", ".", "\u0416", "\u4e2d", "\U0001f41d", "\ufffd", "\ue000", "\u0378", "\ud800"):
        assert has_visible_text(text + char + text)


texts = st.text(max_size=40)
numbers = st.none() | st.floats(min_value=0, max_value=2, allow_nan=False)


@given(texts, st.lists(texts, min_size=1, max_size=3), numbers, numbers, st.none() | texts, st.integers(0, 9))
def test_a_call_keeps_its_key_on_its_way_to_a_lane(
    system: str, turns: list[str], temperature: float | None, top_p: float | None, schema: str | None, sample: int
) -> None:
    messages = tuple(Message(Role.USER, turn) for turn in turns)
    call = ChatCall("p", "m", None, system, messages, Params(7, temperature, top_p), schema, sample)
    assert from_json(to_json(call)).key == call.key


def test_an_embedding_keeps_its_key_on_its_way_to_a_lane() -> None:
    call = EmbedCall("p", "m", "2026-11", "text", 256)
    assert from_json(to_json(call)) == call
