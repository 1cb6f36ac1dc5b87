"""The Anthropic half, seen through the vendor's SDK in strict mode and through raw requests."""

from typing import Any

import anthropic
import pytest

from tests.simulator.batches import AnthropicClient
from tests.simulator.conftest import Start

PATH = "/anthropic/v1/messages"
OLD, NEW = "2023-06-01", "2026-10-21"


def body(model: str = "claude-opus-4-6", **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 800, "messages": [{"role": "user", "content": "hello"}], **more}


def headers(version: str | None = OLD, **more: str) -> dict[str, str]:
    return {"x-api-key": "k"} | ({"anthropic-version": version} if version else {}) | more


async def test_message_in_strict_mode(start: Start) -> None:
    message = await AnthropicClient(await start()).messages.create(**body(system="You are brief."))
    assert message.stop_reason == "end_turn" and message.model == "claude-opus-4-6"
    assert [block.type for block in message.content] == ["text"]
    assert message.usage.cache_read_input_tokens == 0 and message.usage.service_tier == "standard"
    assert message._request_id


async def test_thinking_comes_first_and_counts(start: Start) -> None:
    create = AnthropicClient(await start()).messages.create
    message = await create(**body("claude-opus-5-5", max_tokens=4000))
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.usage.output_tokens_details
    assert 64 <= message.usage.output_tokens_details.thinking_tokens < message.usage.output_tokens
    message = await create(**body("claude-opus-5-5", max_tokens=10))
    assert [block.type for block in message.content] == ["thinking"] and message.stop_reason == "max_tokens"


async def test_sampling_is_accepted_under_the_old_version_only(start: Start) -> None:
    line = await start()
    assert (await AnthropicClient(line, OLD).messages.create(**body(), extra_body={"temperature": 0})).content
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        await AnthropicClient(line).messages.create(**body(), extra_body={"temperature": 1})


OPEN = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
PREFILL = [{"role": "assistant", "content": "a"}]
REFUSALS: list[tuple[dict[str, Any], str | None, str]] = [
    (body(), None, "anthropic-version"),
    (body(), "2020-01-01", "anthropic-version"),
    (body(foo=1), OLD, "foo: Extra inputs are not permitted"),
    ({k: v for k, v in body().items() if k != "max_tokens"}, OLD, "max_tokens: Field required"),
    (body(messages=[]), OLD, "messages"),
    (
        body(messages=[{"role": "system", "content": "a"}]),
        OLD,
        "messages.0.role: Input should be 'user' or 'assistant'",
    ),
    (body(max_tokens=200_000), OLD, "max_tokens: 200000 > 128000"),
    (body(temperature=1.5), OLD, "temperature"),
    *((body() | {name: 1}, NEW, name) for name in ("temperature", "top_p", "top_k")),
    (body(temperature=1, top_p=1), OLD, "cannot both"),
    (body("claude-opus-4-7", temperature=0), OLD, "deprecated for this model"),
    (body("claude-opus-5-5", messages=PREFILL), OLD, "prefill"),
    (body(output_config=OPEN), OLD, "additionalProperties"),
    (body("claude-3-5-sonnet-20241022"), OLD, "model: claude-3-5-sonnet-20241022"),
]


@pytest.mark.parametrize(("sent", "version", "words"), REFUSALS)
async def test_refusals(start: Start, sent: dict[str, Any], version: str | None, words: str) -> None:
    line = await start()
    found, got, reply = await line.post(PATH, sent, headers(version))
    expected = (404, "not_found_error") if words.startswith("model: ") else (400, "invalid_request_error")
    assert (found, reply["error"]["type"], reply["type"]) == (*expected, "error")
    assert words in reply["error"]["message"] and got["request-id"] == reply["request_id"]
    assert (await line.get("/_meter"))["refused"] == 1


async def test_models_with_their_lifecycle(start: Start) -> None:
    models = {"claude-a": {}, "claude-b": {"retired": True}, "*": {}}
    line = await start(accounts={"anthropic": {"models": models}})
    found = [(model.id, model.lifecycle) async for model in AnthropicClient(line).models.list()]
    assert found == [("claude-a", "active"), ("claude-b", "retired")]


async def test_refusals_empties_and_substitutes(start: Start) -> None:
    models = {"refuser": {"refused": 1}, "mute": {"empty": 1}, "cut": {"cut": 1}, "alias": {"reports_as": "x"}}
    create = AnthropicClient(await start(accounts={"anthropic": {"models": models}})).messages.create
    refused = await create(**body("refuser"))
    assert refused.stop_reason == "refusal" and refused.content == [] and refused.stop_details
    mute = await create(**body("mute"))
    assert mute.content == [] and mute.stop_reason == "end_turn"
    assert (await create(**body("cut"))).stop_reason == "max_tokens"
    assert (await create(**body("alias"))).model == "x"


@pytest.mark.parametrize("says", [True, False])
async def test_rate_limits(start: Start, says: bool) -> None:
    models = {"m": {"requests_per_minute": 1, "tokens_per_minute": 90_000}}
    line = await start(accounts={"anthropic": {"models": models, "says_retry_after": says}})
    status, got, _ = await line.post(PATH, body("m"), headers())
    assert status == 200 and got["anthropic-ratelimit-requests-remaining"] == "0"
    assert got["anthropic-ratelimit-input-tokens-remaining"] == "89000"
    assert got["anthropic-ratelimit-tokens-reset"].endswith("Z")
    status, got, reply = await line.post(PATH, body("m"), headers())
    assert (status, reply["error"]["type"]) == (429, "rate_limit_error")
    assert ("retry-after" in got) is says


async def test_spend_limit_and_overload(start: Start) -> None:
    line = await start(accounts={"anthropic": {"quota_calls": 0, "models": {"m": {}}}})
    with pytest.raises(anthropic.RateLimitError) as caught:
        await AnthropicClient(line).messages.create(**body("m"))
    assert caught.value.error_code == "enforced_spend_limit_reached"
    assert "retry-after" not in caught.value.response.headers
    line = await start(faults=[{"kind": "status", "status": 529, "probability": 1}])
    with pytest.raises(anthropic.InternalServerError, match="Overloaded") as overloaded:
        await AnthropicClient(line).messages.create(**body("m"))
    assert overloaded.value.status_code == 529
