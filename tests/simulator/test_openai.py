"""The OpenAI half, seen through the vendor's SDK in strict mode and through raw requests."""

import json
from typing import Any

import pytest

from tests.simulator.batches import SCHEMA, OpenAiClient, closed, formatted
from tests.simulator.conftest import Start

CHAT = "/openai/v1/chat/completions"
EMBED = "/openai/v1/embeddings"


def chat(model: str = "gpt-4.1", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hello"}], **more}


@pytest.mark.parametrize("base", ["/openai/v1", "/v1", "/x/groq/v1"])
async def test_chat_in_strict_mode(start: Start, base: str) -> None:
    line = await start()
    reply = await OpenAiClient(line, base).chat.completions.create(**chat(temperature=0, max_tokens=400))
    assert reply.model == "gpt-4.1"
    assert reply.choices[0].finish_reason == "stop"
    assert (reply.choices[0].message.content or "").count(".") + 1 >= 3
    assert reply.usage and reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply._request_id


async def test_structured_answers_fit_and_differ_from_call_to_call(start: Start) -> None:
    queries = closed(queries={"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3})
    create = OpenAiClient(await start()).chat.completions.create
    seen = []
    for number in range(5):
        message = {"role": "user", "content": f"theme {number}"}
        body = chat(messages=[message], response_format=formatted(queries))
        text = (await create(**body)).choices[0].message.content
        assert text == (await create(**body)).choices[0].message.content
        seen += json.loads(text or "")["queries"]
    assert len(seen) == len(set(seen)) == 15


async def test_a_reasoning_model_thinks_first_and_may_run_out(start: Start) -> None:
    create = OpenAiClient(await start()).chat.completions.create
    reply = await create(**chat("o3-2025-04-16", max_completion_tokens=5000))
    assert reply.usage and reply.usage.completion_tokens_details
    thought = reply.usage.completion_tokens_details.reasoning_tokens or 0
    assert 64 <= thought <= 1024 and reply.usage.completion_tokens > thought
    reply = await create(**chat("o3-2025-04-16", max_completion_tokens=30))
    assert reply.choices[0].finish_reason == "length" and reply.choices[0].message.content == ""
    assert reply.usage and reply.usage.completion_tokens == 30


async def test_embeddings_in_both_encodings(start: Start) -> None:
    line = await start()
    texts = ["my dog is unwell", "the tax return"]
    body: dict[str, Any] = {"model": "text-embedding-3-small", "input": texts}
    floats = await OpenAiClient(line).embeddings.create(**body, encoding_format="float")
    packed = await OpenAiClient(line, "/v1", is_strict=False).embeddings.create(**body)
    assert [one.index for one in floats.data] == [0, 1]
    assert len(floats.data[0].embedding) == 1536
    for one, other in zip(floats.data, packed.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-7)
    short = await OpenAiClient(line).embeddings.create(**body, encoding_format="float", dimensions=64)
    assert len(short.data[1].embedding) == 64
    assert sum(value * value for value in short.data[1].embedding) == pytest.approx(1, abs=1e-5)


async def test_models_are_listed_without_patterns_and_retired_ones(start: Start) -> None:
    models = {"a": {}, "b": {"retired": True}, "*": {}}
    line = await start(accounts={"openai": {"models": models}})
    assert [model.id async for model in OpenAiClient(line).models.list()] == ["a"]


REFUSALS: list[tuple[str, dict[str, Any], int, str | None, str | None]] = [
    (CHAT, chat(foo=1), 400, "unknown_parameter", "foo"),
    (CHAT, {"model": "gpt-4.1"}, 400, "missing_required_parameter", "messages"),
    (CHAT, {"messages": [{"role": "user", "content": "a"}]}, 400, "missing_required_parameter", "model"),
    (CHAT, chat(messages=[]), 400, "invalid_value", "messages"),
    (CHAT, chat(temperature=3), 400, "invalid_value", "temperature"),
    (CHAT, chat(temperature="0"), 400, "invalid_type", "temperature"),
    (CHAT, chat(max_tokens=0), 400, "invalid_value", "max_tokens"),
    (CHAT, chat(max_tokens=40_000), 400, "invalid_value", "max_tokens"),
    (CHAT, chat("o3", temperature=0), 400, "unsupported_value", "temperature"),
    (CHAT, chat("o3", top_p=0.5), 400, "unsupported_value", "top_p"),
    (CHAT, chat("o3", max_tokens=100), 400, "unsupported_parameter", "max_tokens"),
    (CHAT, chat("gpt-4.1", reasoning_effort="low"), 400, None, "reasoning_effort"),
    (CHAT, chat("o4-mini-2025-04-16"), 404, "model_not_found", None),
    (CHAT, chat("text-embedding-3-small"), 403, None, "model"),
    (CHAT, chat(response_format={"type": "json_schema"}), 400, "missing_required_parameter", None),
    (CHAT, chat(response_format=formatted({"type": "object", "properties": {}})), 400, None, "response_format"),
    (CHAT, chat(response_format=formatted(SCHEMA | {"required": []})), 400, None, "response_format"),
    (EMBED, {"model": "text-embedding-3-small", "input": ""}, 400, None, "input"),
    (EMBED, {"model": "text-embedding-3-small", "input": []}, 400, None, "input"),
    (EMBED, {"model": "text-embedding-3-small", "input": ["a", ""]}, 400, None, "input"),
    (EMBED, {"model": "text-embedding-3-small", "input": ["a"] * 2049}, 400, None, "input"),
    (EMBED, {"model": "text-embedding-3-small", "input": "a" * 40_000}, 400, None, "input"),
    (EMBED, {"model": "text-embedding-3-small", "input": ["a" * 30_000] * 50}, 400, None, "input"),
    (EMBED, {"model": "text-embedding-3-small", "input": "a", "dimensions": 9999}, 400, None, "input"),
    ("/openai/v1/nothing", chat(), 404, None, None),
]


@pytest.mark.parametrize(("path", "body", "status", "code", "param"), REFUSALS)
async def test_refusals(
    start: Start, path: str, body: dict[str, Any], status: int, code: str | None, param: str | None
) -> None:
    line = await start()
    found, _, reply = await line.post(path, body)
    assert found == status
    assert set(reply["error"]) == {"message", "type", "param", "code"}
    assert (reply["error"]["code"], reply["error"]["type"]) == (code, "invalid_request_error")
    assert param is None or reply["error"]["param"] == param
    meter = await line.get("/_meter")
    assert (meter["refused"], meter["billed"], meter["nanousd"]) == (1, 0, 0)


async def test_over_long_and_unknown(start: Start) -> None:
    line = await start(accounts={"openai": {"models": {"small": {"context_tokens": 20}}}})
    status, _, reply = await line.post(CHAT, chat("small", messages=[{"role": "user", "content": "a" * 99}]))
    assert (status, reply["error"]["code"]) == (400, "context_length_exceeded")
    status, _, reply = await line.post(CHAT, chat("other"))
    assert (status, reply["error"]["code"]) == (404, "model_not_found")


async def test_refusals_empties_cuts_and_substitutes(start: Start) -> None:
    models: dict[str, Any] = {
        "refuser": {"refused": 1},
        "mute": {"empty": 1},
        "cut": {"cut": 1},
        "alias": {"reports_as": "other"},
        "half": {"reports_as": "other", "reports_as_share": 0.5},
    }
    create = OpenAiClient(await start(accounts={"openai": {"models": models}})).chat.completions.create
    blocked = (await create(**chat("refuser"))).choices[0]
    assert (blocked.finish_reason, blocked.message.content) == ("content_filter", "")
    refused = (await create(**chat("refuser", response_format=formatted(SCHEMA)))).choices[0]
    assert refused.message.refusal and refused.message.content is None and refused.finish_reason == "stop"
    mute = (await create(**chat("mute"))).choices[0]
    assert (mute.message.content, mute.finish_reason) == ("", "stop")
    cut = (await create(**chat("cut"))).choices[0]
    assert cut.message.content and cut.finish_reason == "length"
    assert (await create(**chat("alias"))).model == "other"
    names = {(await create(**chat("half", messages=[{"role": "user", "content": str(n)}]))).model for n in range(20)}
    assert names == {"half", "other"}


async def test_cached_tokens_of_long_prompts(start: Start) -> None:
    price = {"input": "2", "cached": "0.5", "output": "0"}
    line = await start(accounts={"openai": {"models": {"m": {"cached": 1, "price": price}}}})
    body = chat("m", messages=[{"role": "user", "content": "word " * 2000}], max_tokens=10)
    usage = (await OpenAiClient(line).chat.completions.create(**body)).usage
    assert usage and usage.prompt_tokens_details
    cached = usage.prompt_tokens_details.cached_tokens or 0
    assert cached % 128 == 0 and 1024 <= cached < usage.prompt_tokens
    meter = await line.get("/_meter")
    assert meter["nanousd"] == (usage.prompt_tokens - cached) * 2000 + cached * 500


async def test_rate_limit_headers_and_429(start: Start) -> None:
    models = {"m": {"requests_per_minute": 2, "tokens_per_minute": 3000}}
    line = await start(accounts={"openai": {"models": models}})
    status, headers, _ = await line.post(CHAT, chat("m", max_tokens=100))
    assert status == 200
    assert headers["x-ratelimit-limit-requests"] == "2"
    assert headers["x-ratelimit-remaining-requests"] == "1"
    assert int(headers["x-ratelimit-remaining-tokens"]) <= 2900
    assert headers["x-ratelimit-reset-requests"].endswith("s")
    await line.post(CHAT, chat("m", max_tokens=100))
    status, headers, reply = await line.post(CHAT, chat("m", max_tokens=100))
    assert (status, reply["error"]["code"], reply["error"]["type"]) == (429, "rate_limit_exceeded", "requests")
    assert 25 <= int(headers["retry-after"]) <= 30
    status, headers, reply = await line.post(CHAT, chat("m", max_tokens=5000))
    assert (status, reply["error"]["type"]) == (429, "tokens") and "retry-after" not in headers


async def test_a_quota_of_calls(start: Start) -> None:
    line = await start(accounts={"openai": {"quota_calls": 1}})
    assert (await line.post(CHAT, chat()))[0] == 200
    status, _, reply = await line.post(CHAT, chat())
    assert (status, reply["error"]["code"]) == (429, "insufficient_quota")
    assert (await line.post("/x/groq/v1/chat/completions", chat()))[0] == 200
