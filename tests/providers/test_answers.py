"""Successful bodies: usage, every documented way to end, who answered."""

from __future__ import annotations

from typing import Any

import pytest

from hab_ray.calls import Answer, Finish, Usage
from hab_ray.errors import CallError, ProviderError, TransientError
from tests.providers.conftest import KINDS, Hear, Play, candidate, chat_call, choice, entry, message, reader


def blocked_prompt(reason: str) -> dict[str, Any]:
    return {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 9}, "modelVersion": "m-1"}


OK, CUT, NO, NONE = Finish.OK, Finish.TRUNCATED, Finish.REFUSED, Finish.EMPTY
STOPS = {
    "openai": [
        (choice(), OK, "Hello."),
        (choice(reason=None), OK, "Hello."),
        (choice(reason="tool_calls"), OK, "Hello."),
        (choice(reason="length"), CUT, "Hello."),
        (choice("", "length"), CUT, ""),
        (choice("", "content_filter"), NO, ""),
        (choice(None, "stop", refusal="I can't."), NO, "I can't."),
        (choice(""), NONE, ""),
        (choice(" \n"), NONE, " \n"),
        (choice("\u200b\u2060"), NONE, "\u200b\u2060"),
        (choice("\u200b", "length"), CUT, "\u200b"),
        (choice(None), NONE, ""),
    ],
    "anthropic": [
        (message(), OK, "Hello."),
        (message(reason="stop_sequence"), OK, "Hello."),
        (message(reason="max_tokens"), CUT, "Hello."),
        (message(None, "max_tokens"), CUT, ""),
        (message(reason="model_context_window_exceeded"), CUT, "Hello."),
        (message(reason="pause_turn"), CUT, "Hello."),
        (message(reason="tool_use"), CUT, "Hello."),
        (message(None), NONE, ""),
        (message("\u00ad\u3164"), NONE, "\u00ad\u3164"),
        (message(None, "refusal", stop_details={"type": "refusal", "explanation": "Bio."}), NO, "Bio."),
        (message("Half", "refusal", stop_details=None), NO, "Half"),
    ],
    "google": [
        (candidate(), OK, "Hello."),
        (candidate(reason=None), OK, "Hello."),
        (candidate(reason="MAX_TOKENS"), CUT, "Hello."),
        (candidate(None, "MAX_TOKENS"), CUT, ""),
        (candidate(None), NONE, ""),
        (candidate(" "), NONE, " "),
        (candidate("\ufeff\u2800"), NONE, "\ufeff\u2800"),
        (candidate(None, "SAFETY"), NO, "answer blocked: SAFETY"),
        (candidate("Half", "RECITATION", finishMessage="Cited."), NO, "Cited."),
        *((candidate(None, why), NO, f"answer blocked: {why}") for why in ("LANGUAGE", "BLOCKLIST", "ESCALATION")),
        *((candidate(None, why), NO, f"answer blocked: {why}") for why in ("PROHIBITED_CONTENT", "SPII")),
        *((candidate(None, why), NONE, "") for why in ("OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")),
        *((candidate(None, why), NONE, "") for why in ("TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE")),
        *((candidate("Half", why), CUT, "Half") for why in ("OTHER", "MALFORMED_RESPONSE", "CONTINUATION")),
        *((blocked_prompt(why), NO, f"prompt blocked: {why}") for why in ("SAFETY", "OTHER", "PROHIBITED_CONTENT")),
        *((blocked_prompt(why), NO, f"prompt blocked: {why}") for why in ("BLOCKLIST", "JAILBREAK")),
    ],
}
TABLE = [(kind, *row) for kind, rows in STOPS.items() for row in rows]


@pytest.mark.parametrize(("kind", "body", "finish", "text"), TABLE)
def test_every_way_to_end(kind: str, body: dict[str, Any], finish: Finish, text: str) -> None:
    answer = reader(kind).read_chat(body)
    assert (answer.finish, answer.text, answer.model_reported) == (finish, text, "m-1")
    assert answer.usage.input == 9


@pytest.mark.parametrize("kind", KINDS)
async def test_usage_adds_up_to_the_vendors_bill(kind: str, play: Play) -> None:
    line, provider = await play(kind, {"models": {"m": {"thinking": "always", "cached": 1.0}}})
    entry_m = entry("m", thinking="always", output_limit_field="max_completion_tokens")
    wire = provider.chat(chat_call(system="You are brief. " * 500), entry_m)
    usage = provider.read_chat((await provider.send(wire)).body).usage
    meter = await line.get("/_meter")
    assert usage == Usage(
        input=meter["input_tokens"],
        cached=meter["cached_tokens"],
        cache_written=meter["cache_written_tokens"],
        output=meter["output_tokens"],
        reasoning=meter["reasoning_tokens"],
    )
    assert usage.reasoning > 0


def test_a_gateway_names_who_served() -> None:
    provider = reader("openai")
    assert provider.read_chat(choice() | {"provider": "Novita", "system_fingerprint": "fp"}).served_by == "Novita"
    assert provider.read_chat(choice() | {"system_fingerprint": "fp"}).served_by == "fp"


@pytest.mark.parametrize(
    ("kind", "status", "body", "words"),
    [
        ("openai", 400, {"error": {"message": "Flagged.", "code": "content_filter"}}, "Flagged."),
        ("openai", 400, {"error": {"message": "Policy.", "code": "invalid_prompt"}}, "Policy."),
        ("openai", 403, {"error": {"message": "Moderated", "metadata": {"reasons": ["x"]}}}, "Moderated"),
        ("openai", 200, {"error": {"message": "Moderated", "metadata": {"reasons": ["x"]}}}, "Moderated"),
        (
            "anthropic",
            400,
            {"type": "error", "error": {"message": "Output blocked by content filtering policy"}},
            "Output blocked by content filtering policy",
        ),
    ],
)
async def test_blocked_content_is_a_refusal_of_the_row(
    kind: str, status: int, body: object, words: str, hear: Hear
) -> None:
    assert await hear(kind, status, body) == Answer(Finish.REFUSED, Usage(), "", text=words)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "No credits", "code": 402}}, ProviderError),
        ({"error": {"message": "Upstream", "code": 502}, "choices": []}, TransientError),
        ({"error": {"message": "Upstream"}}, TransientError),
    ],
)
async def test_an_error_under_http_200_is_an_error(body: object, expected: type[CallError], hear: Hear) -> None:
    with pytest.raises(expected):
        await hear("openai", 200, body)


async def test_an_empty_error_field_beside_an_answer_is_none(hear: Hear) -> None:
    assert (await hear("openai", 200, choice() | {"error": None})).text == "Hello."


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_an_answer_broken_off_by_the_server_is_no_answer(reason: str) -> None:
    with pytest.raises(TransientError):
        reader("openai").read_chat(choice(reason=reason))


def test_an_account_closed_in_the_answer_stops_the_provider() -> None:
    with pytest.raises(ProviderError):
        reader("google").read_chat(candidate(None, "PUP_LIMITED_DISABLED"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": [], "content": None, "candidates": []},
        {"choices": [{}], "content": [{"type": "text"}], "candidates": [[]]},
        {"choices": "x", "content": "x", "candidates": "x"},
        {"choices": [{"message": None}], "content": [None], "candidates": [{"content": "x"}]},
    ],
)
def test_other_bodies_are_malformed(kind: str, body: dict[str, Any]) -> None:
    with pytest.raises(TransientError, match="not as documented"):
        reader(kind).read_chat(body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": [{"index": 0, "embedding": "AAAA"}], "embeddings": [{"values": [1.0]}]},
        {"data": [{"index": 0, "embedding": "?"}, {"index": 1, "embedding": "?"}], "embeddings": [{}, {}]},
        {"data": [{"index": 1, "embedding": ["x"]}, {"index": 0}], "embeddings": [{"values": ["x"]}] * 2},
        {"data": [None, None], "embeddings": [None, None]},
    ],
)
def test_other_vectors_are_malformed(kind: str, body: dict[str, Any]) -> None:
    with pytest.raises(TransientError, match="not as documented"):
        reader(kind).read_embeddings(body, 2)


def test_vectors_of_servers_that_ignore_the_encoding() -> None:
    data = [{"index": 1, "embedding": [0.0, 2.0]}, {"index": 0, "embedding": "AACAPwAAAAA="}]
    answer = reader("openai").read_embeddings({"data": data, "model": "m-1"}, 2)
    assert answer.vectors == (b"\0\0\x80\x3f\0\0\0\0", b"\0\0\0\0\0\0\0\x40")
