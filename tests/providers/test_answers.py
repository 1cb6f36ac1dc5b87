"""Successful bodies: every documented way to end, who answered, whose usage means what, and what no number may say."""

import json
from typing import Any

import pytest

from hab_ray.calls import Answer, Finish, Usage
from hab_ray.catalog.prices import Price
from hab_ray.errors import BadUsage, ProviderError, RowError, TransientError
from hab_ray.providers.http import json_object
from hab_ray.providers.numbers import counters
from tests.providers.conftest import KEY, KINDS, Hear, Play, candidate, chat_call, choice, entry, message, reader, send


def blocked_prompt(reason: str) -> dict[str, Any]:
    return {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 9}, "modelVersion": "m-1"}


OPENAI, ANTHROPIC, GOOGLE, XAI = "openai", "anthropic", "google", "xai"
OK, CUT, NO, NONE = Finish.OK, Finish.TRUNCATED, Finish.REFUSED, Finish.EMPTY
STOPS = {
    "openai": [
        (choice(), OK, "Hello."),
        (choice(reason=None), OK, "Hello."),
        (choice(reason="tool_calls"), OK, "Hello."),
        (choice(reason="length"), CUT, "Hello."),
        (choice("", "length"), CUT, ""),
        (choice(reason="model_length"), CUT, "Hello."),
        (choice(reason="model_context_window_exceeded"), CUT, "Hello."),
        (choice("", "content_filter"), NO, ""),
        (choice("", "sensitive"), NO, ""),
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
        output=meter["output_tokens"],
        reasoning=meter["reasoning_tokens"],
    )
    assert usage.reasoning > 0


@pytest.mark.parametrize(
    ("kind", "body", "tier"),
    [
        (OPENAI, choice() | {"service_tier": "priority"}, "priority"),
        (ANTHROPIC, message(usage={"input_tokens": 9, "output_tokens": 5, "service_tier": "priority"}), "priority"),
        (ANTHROPIC, message(usage={"input_tokens": 9, "output_tokens": 5, "inference_geo": "us"}), "us"),
        (GOOGLE, candidate() | {"usageMetadata": {"trafficType": "ON_DEMAND_PRIORITY"}}, "ON_DEMAND_PRIORITY"),
        *((OPENAI, choice() | {"service_tier": tier}, "") for tier in (None, "default", "flex", ["priority"])),
        (ANTHROPIC, message(usage={"service_tier": "batch", "inference_geo": "not_available"}), ""),
        (GOOGLE, candidate() | {"usageMetadata": {"serviceTier": "standard", "trafficType": "ON_DEMAND"}}, ""),
    ],
)
def test_a_tier_that_costs_more_than_the_list_says_is_read(kind: str, body: dict[str, Any], tier: str) -> None:
    assert reader(kind).read_chat(body).dear_tier == tier


def test_a_gateway_names_who_served() -> None:
    provider = reader("openai")
    assert provider.read_chat(choice() | {"provider": "Novita", "system_fingerprint": "fp"}).served_by == "Novita"
    assert provider.read_chat(choice() | {"system_fingerprint": "fp"}).served_by == "fp"


async def test_an_empty_error_field_beside_an_answer_is_none(hear: Hear) -> None:
    assert (await hear("openai", 200, choice() | {"error": None})).text == "Hello."


def test_what_the_server_broke_off_or_closed_is_no_answer() -> None:
    for reason in ("error", "abort", "insufficient_system_resource", "network_error"):
        with pytest.raises(TransientError, match=rf"aborted the answer .finish_reason {reason}"):
            reader(OPENAI).read_chat(choice(reason=reason))
    broken = choice(reason=None)
    broken["choices"][0]["error"] = {"code": 502, "message": "Upstream died"}
    with pytest.raises(TransientError, match=r"aborted the answer .Upstream died"):
        reader(OPENAI).read_chat(broken)
    with pytest.raises(ProviderError):
        reader(GOOGLE).read_chat(candidate(None, "PUP_LIMITED_DISABLED"))


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


def body(kind: str, usage: Any) -> dict[str, Any]:
    wrap = {OPENAI: choice, XAI: choice, ANTHROPIC: message, GOOGLE: candidate}[kind]
    return wrap() | {"usageMetadata" if kind == GOOGLE else "usage": usage}


def read(kind: str, usage: Any) -> Answer:
    return reader(kind).read_chat(json_object(json.dumps(body(kind, usage))))


def chat(prompt: int, completion: int, reasoning: int, total: int | None, **more: Any) -> dict[str, Any]:
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return told | {"completion_tokens_details": {"reasoning_tokens": reasoning}} | more


def gemini(prompt: int, candidates: int, **more: int) -> dict[str, int]:
    return {"promptTokenCount": prompt, "candidatesTokenCount": candidates, **more}


@pytest.mark.parametrize(
    ("kind", "usage", "output"),
    [
        (XAI, chat(12, 1, 228, 241), 229),
        (XAI, chat(12, 300, 228, 540), 528),
        (XAI, chat(12, 300, 228, None), 528),
        (OPENAI, chat(12, 300, 228, 312), 300),
        (OPENAI, chat(12, 300, 228, None), 300),
        (OPENAI, chat(12, 1, 228, 241), 229),
        (OPENAI, chat(12, 300, 228, 540), 528),
        (OPENAI, chat(12, 1, 228, None), 229),
    ],
)
def test_reasoning_is_billed_apart_where_the_vendor_or_the_sums_say_so(kind: str, usage: Any, output: int) -> None:
    assert read(kind, usage).usage == Usage(input=12, output=output, reasoning=228)


@pytest.mark.parametrize(
    ("kind", "usage", "expected"),
    [
        (
            OPENAI,
            chat(2000, 700, 600, None, prompt_tokens_details={"cached_tokens": 1024, "cache_write_tokens": 256}),
            Usage(input=2000, cached=1024, cache_written=256, output=700, reasoning=600),
        ),
        (
            ANTHROPIC,
            {
                "input_tokens": 50,
                "cache_creation_input_tokens": 300,
                "cache_read_input_tokens": 1000,
                "output_tokens": 700,
                "output_tokens_details": {"thinking_tokens": 600},
            },
            Usage(input=1350, cached=1000, cache_written=300, output=700, reasoning=600),
        ),
        (
            ANTHROPIC,
            {"input_tokens": 3, "cache_read_input_tokens": None, "output_tokens": 4, "output_tokens_details": None},
            Usage(3, output=4),
        ),
        (GOOGLE, gemini(2000, 50, cachedContentTokenCount=1024, thoughtsTokenCount=60), Usage(2000, 1024, 0, 110, 60)),
        (GOOGLE, gemini(3, 4), Usage(3, output=4)),
        (OPENAI, {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": None}, Usage(3, output=4)),
        *((kind, None, Usage()) for kind in (OPENAI, GOOGLE)),
    ],
)
def test_usage_in_our_terms(kind: str, usage: Any, expected: Usage) -> None:
    assert read(kind, usage).usage == expected


def test_a_live_row_of_xais_batches_costs_what_xai_says() -> None:
    """grok-4.3 at 20 % off: 198 prompt tokens, 192 of them cached, 1 said, 118 thought."""
    usage = chat(198, 1, 118, 317, prompt_tokens_details={"cached_tokens": 192}, cost_in_usd_ticks=2_747_200)
    answer = read(XAI, usage)
    assert Price.usd(input=1.0, cached=0.16, output=2.0).cost(answer.usage) == answer.stated_nanousd == 274_720


@pytest.mark.parametrize(
    ("more", "nanousd"),
    [
        ({}, None),
        ({"cost": None}, None),
        ({"cost": 0}, 0),
        ({"cost": 0.00014}, 140_000),
        ({"cost": "0.00014"}, 140_000),
        ({"cost": "1.4e-05"}, 14_000),
        ({"cost_in_usd_ticks": "40"}, 4),
        ({"cost": 0.0000000015}, 2),
        ({"cost_in_usd_ticks": 37_756_005}, 3_775_601),
        ({"cost_in_usd_ticks": 40, "cost": 1.0}, 4),
        ({"cost": 0.001, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.02}}, 1_000_000),
        ({"cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}}, 21_000_000),
        ({"cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0}}, 1_000_000),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, None),
        ({"cost": 0, "is_byok": True}, None),
        ({"cost": {"total_cost": 0.5}}, None),
    ],
)
def test_a_price_that_the_vendor_states_is_carried(more: Any, nanousd: int | None) -> None:
    assert read(OPENAI, chat(9, 5, 0, 14) | more).stated_nanousd == nanousd


HUGE = 10**30
BAD = [-1, HUGE, 1e30, 2.5, True, False, "-5", "2.5", "5 ", "nan", "1" * 50, [3], {"n": 1}]
BAD += [float("nan"), float("inf"), -float("inf")]
FIELDS: list[tuple[str, str, dict[str, Any]]] = [
    (OPENAI, "prompt_tokens", {}),
    (OPENAI, "completion_tokens", {}),
    (OPENAI, "total_tokens", {}),
    (XAI, "completion_tokens", {}),
    (ANTHROPIC, "input_tokens", {"output_tokens": 5}),
    (ANTHROPIC, "output_tokens", {"input_tokens": 5}),
    (ANTHROPIC, "cache_read_input_tokens", {"input_tokens": 5, "output_tokens": 5}),
    (ANTHROPIC, "cache_creation_input_tokens", {"input_tokens": 5, "output_tokens": 5}),
    (GOOGLE, "promptTokenCount", {}),
    (GOOGLE, "candidatesTokenCount", {}),
    (GOOGLE, "thoughtsTokenCount", {}),
    (GOOGLE, "cachedContentTokenCount", {}),
]
NESTED = [
    (OPENAI, "prompt_tokens_details", "cached_tokens"),
    (OPENAI, "prompt_tokens_details", "cache_write_tokens"),
    (OPENAI, "completion_tokens_details", "reasoning_tokens"),
]


@pytest.mark.parametrize("value", BAD, ids=lambda value: str(value)[:12])
def test_a_count_that_is_none_is_told_with_its_field(value: object) -> None:
    for kind, field, others in FIELDS:
        with pytest.raises(BadUsage, match=field):
            read(kind, others | {field: value})
    for kind, part, field in NESTED:
        with pytest.raises(BadUsage, match=field):
            read(kind, {part: {field: value}})


@pytest.mark.parametrize(
    "value", [-1, 1e30, HUGE, True, "-0.01", "$1", "nan", "1" * 50, float("nan"), float("inf"), [1]]
)
@pytest.mark.parametrize("field", ["cost", "cost_in_usd_ticks"])
def test_a_price_that_is_none_is_told_with_its_field(field: str, value: object) -> None:
    with pytest.raises(BadUsage, match=field):
        read(OPENAI, chat(9, 5, 0, 14) | {field: value})


def test_a_number_of_more_digits_than_python_converts_is_one_rows_failure() -> None:
    text = json.dumps(body(OPENAI, {"prompt_tokens": 7})).replace("7", "9" * 5000)
    with pytest.raises(BadUsage, match="prompt_tokens is inf"):
        reader(OPENAI).read_chat(json_object(text))


@pytest.mark.parametrize("usage", [5, "many", [1], True])
def test_a_usage_that_is_no_object_is_one_rows_failure(usage: object) -> None:
    for kind in (OPENAI, ANTHROPIC, GOOGLE):
        with pytest.raises(BadUsage):
            read(kind, usage)


def test_the_message_shows_too_little_of_a_text_to_give_a_key_away() -> None:
    with pytest.raises(BadUsage) as caught:
        read(OPENAI, {"prompt_tokens": KEY})
    assert KEY[:8] not in str(caught.value) and "'hab-re'..." in str(caught.value)
    with pytest.raises(BadUsage, match=r"prompt_tokens is '\\x1b\[31m'"):
        read(OPENAI, {"prompt_tokens": "\x1b[31m"})


def test_whole_numbers_that_are_written_with_a_point_are_taken() -> None:
    assert read(OPENAI, {"prompt_tokens": 9.0, "completion_tokens": 100_000_000}).usage.output == 100_000_000


@pytest.mark.parametrize("kind", KINDS)
def test_counts_that_a_gateway_writes_as_text_are_taken(kind: str) -> None:
    asked, said = COUNTS[kind]
    answer = read(kind, {asked: "9", said: "5"})
    assert answer.usage == Usage(9, output=5) and answer.bill_known


def test_parts_beyond_the_whole_take_nothing_off() -> None:
    usage = read(OPENAI, {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 1000}}).usage
    assert Price.usd(input=2.0, cached=0.5, output=1.0).cost(usage) == 500_000
    assert not usage.fits(5000, 5000) and Usage(10, cached=10).fits(10, 0)
    assert not Usage(11).fits(10, 0) and not Usage(0, output=1).fits(10, 0)


COUNTS = {
    OPENAI: ("prompt_tokens", "completion_tokens"),
    ANTHROPIC: ("input_tokens", "output_tokens"),
    GOOGLE: ("promptTokenCount", "candidatesTokenCount"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_without_one_of_both_counts_has_no_known_bill(kind: str) -> None:
    """Booked at the other count alone, it would cost more than the budget knows; a gateway's zeros are no counts."""
    asked, said = COUNTS[kind]
    zeros = {asked: 0, said: 0}
    lacking = ({asked: 9}, {said: 5}, {asked: 9, said: None}, {asked: None, said: 5}, {asked: 9, said: 0})
    for usage in (None, {}, zeros, *lacking):
        assert not read(kind, usage).bill_known, usage
    assert read(kind, {asked: 9, said: 5}).bill_known


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_without_text_may_cost_no_output(kind: str) -> None:
    asked, said = COUNTS[kind]
    silent = {OPENAI: choice, ANTHROPIC: message, GOOGLE: candidate}[kind](None)
    silent["usageMetadata" if kind == GOOGLE else "usage"] = {asked: 9, said: 0}
    assert reader(kind).read_chat(silent).bill_known


def test_vectors_without_a_count_have_no_known_bill() -> None:
    openai: dict[str, Any] = {"data": [{"index": 0, "embedding": [1.0]}]}
    google: dict[str, Any] = {"embeddings": [{"values": [1.0]}]}
    for kind, body, field, name in (
        (OPENAI, openai, "usage", "prompt_tokens"),
        (GOOGLE, google, "usageMetadata", "promptTokenCount"),
    ):
        assert not reader(kind).read_embeddings(body, 1).bill_known
        assert not reader(kind).read_embeddings(body | {field: {name: 0}}, 1).bill_known
        assert reader(kind).read_embeddings(body | {field: {name: 2}}, 1).bill_known


@pytest.mark.parametrize("embedding", [[1.0, float("nan")], [1e300, 0.0], "AADAfwAAgD8="])
def test_a_vector_without_distances_is_refused(embedding: object) -> None:
    with pytest.raises(RowError, match="NaN or infinity"):
        reader(OPENAI).read_embeddings({"data": [{"index": 0, "embedding": embedding}]}, 1)
    if isinstance(embedding, list):
        with pytest.raises(RowError, match="NaN or infinity"):
            reader(GOOGLE).read_embeddings({"embeddings": [{"values": embedding}]}, 1)


def test_typed_parts_are_read_without_the_thoughts() -> None:
    """As Mistral's reasoning models answer."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    parts = [thought, {"type": "text", "text": "Yes, "}, {"type": "text", "text": "do."}]
    answer = reader(OPENAI).read_chat(choice(parts))
    assert (answer.text, answer.finish) == ("Yes, do.", Finish.OK)
    assert reader(OPENAI).read_chat(choice([thought])).finish is Finish.EMPTY


async def test_the_simulated_xai_bills_as_xai_does(play: Play) -> None:
    price = {"input": 1.25, "output": 2.5}
    line, provider = await play(XAI, {"models": {"grok": {"thinking": "always", "price": price}}})
    said = (await send(provider, "grok", thinking="always", output_limit_field="max_completion_tokens")).body
    answer = provider.read_chat(said)
    meter = await line.get("/_meter")
    assert said["usage"]["completion_tokens"] + answer.usage.reasoning == answer.usage.output == meter["output_tokens"]
    assert said["usage"]["total_tokens"] == answer.usage.input + answer.usage.output and answer.usage.reasoning > 0
    assert Price.usd(**price).cost(answer.usage) == answer.stated_nanousd == meter["nanousd"] > 0


def test_a_batchs_counters_may_be_text_and_what_is_no_number_is_left_out() -> None:
    counts = {"done": 3, "failed": "2", "expired": None, "note": "soon", "all": float("inf"), "parts": {}}
    assert counters(counts) == {"done": 3, "failed": 2, "expired": 0, "parts": 0}
