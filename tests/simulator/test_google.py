"""The Gemini half, seen through the vendor's SDK (both transports) and through raw requests."""

import asyncio
from typing import Any

import pytest
from google.genai import errors, types

from tests.simulator.batches import SCHEMA, GoogleClient
from tests.simulator.conftest import Start

GENERATE = "/google/v1/models/gemini-3.8-flash:generateContent"
EMBED = "/google/v1beta/models/gemini-embedding-001:batchEmbedContents"


def body(**more: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": "hello"}]}], **more}


def generation(**settings: Any) -> dict[str, Any]:
    return body(generationConfig=settings)


def as_json(schema: dict[str, Any]) -> dict[str, Any]:
    return generation(responseMimeType="application/json", responseJsonSchema=schema)


def embedded(text: str, **more: Any) -> dict[str, Any]:
    return {"content": {"parts": [{"text": text}]}, **more}


async def test_generate_in_both_transports(start: Start) -> None:
    google = GoogleClient(await start())
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0,
        top_p=0.95,
        max_output_tokens=4000,
        seed=1,
        safety_settings=[
            types.SafetySetting(
                category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
                threshold=types.HarmBlockThreshold.BLOCK_NONE,
            )
        ],
    )
    asked = google.aio.models.generate_content
    reply = await asked(model="gemini-3.8-flash", contents="hello", config=config)
    same = await asyncio.to_thread(
        google.models.generate_content, model="gemini-3.8-flash", contents="hello", config=config
    )
    assert reply.text and reply.text == same.text and reply.model_version == "gemini-3.8-flash"
    assert reply.candidates and reply.candidates[0].finish_reason == types.FinishReason.STOP
    usage = reply.usage_metadata
    assert usage and usage.thoughts_token_count and usage.candidates_token_count and usage.prompt_token_count
    assert usage.total_token_count == (
        usage.prompt_token_count + usage.candidates_token_count + usage.thoughts_token_count
    )


async def test_raw_replies_hold_no_field_the_sdk_does_not_know(start: Start) -> None:
    line = await start(accounts={"google": {"models": {"m": {"thinking": "always", "cached": 1}}}})
    long = {"contents": [{"parts": [{"text": "word " * 2000}]}]}
    status, _, reply = await line.post("/google/v1/models/m:generateContent", long)
    assert status == 200 and reply["usageMetadata"]["cachedContentTokenCount"] >= 1024
    types.GenerateContentResponse.model_validate(reply)


async def test_thoughts_may_eat_the_whole_answer(start: Start) -> None:
    reply = await GoogleClient(await start()).aio.models.generate_content(
        model="gemini-3.8-flash", contents="a", config=types.GenerateContentConfig(max_output_tokens=20)
    )
    assert reply.text is None and reply.candidates
    assert reply.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS


async def test_embeddings(start: Start) -> None:
    line = await start()
    google = GoogleClient(line)
    texts: list[types.PartUnionDict] = ["my dog is unwell", "a tax return"]
    reply = await google.aio.models.embed_content(
        model="gemini-embedding-001",
        contents=texts,
        config=types.EmbedContentConfig(output_dimensionality=256, task_type="CLUSTERING"),
    )
    assert reply.embeddings and [len(one.values or []) for one in reply.embeddings] == [256, 256]
    assert reply.usage_metadata and reply.usage_metadata.prompt_token_count == 7
    one = await line.post(
        "/google/v1/models/gemini-embedding-001:embedContent",
        embedded("my dog is unwell", output_dimensionality=256),
    )
    assert one[2]["embedding"]["values"] == reply.embeddings[0].values


async def test_models_are_listed(start: Start) -> None:
    line = await start(accounts={"google": {"models": {"a": {"serves": ["embeddings"]}, "b": {"retired": True}}}})
    google = GoogleClient(line)
    assert [model.name async for model in await google.aio.models.list()] == ["models/a"]
    assert [model.name for model in await asyncio.to_thread(google.models.list)] == ["models/a"]


FLASH = "/google/v1/models/gemini-2.5-flash:generateContent"
REFUSALS: list[tuple[str, dict[str, Any], int, str]] = [
    (GENERATE, {}, 400, "contents"),
    (GENERATE, body(foo=1), 400, 'Unknown name "foo": Cannot find field'),
    (GENERATE, generation(maxTokens=1), 400, "Unknown name \"maxTokens\" at 'generationConfig'"),
    (GENERATE, body(contents=[{"role": "system", "parts": [{"text": "a"}]}]), 400, "role"),
    (GENERATE, generation(temperature=3), 400, "temperature"),
    (GENERATE, generation(maxOutputTokens=99_999), 400, "maxOutputTokens"),
    (GENERATE, generation(thinkingConfig={"thinkingBudget": 0}), 400, "only works in thinking mode"),
    (GENERATE, generation(thinkingConfig={"thinkingBudget": 50}), 400, "thinking budget (50)"),
    (GENERATE, generation(thinkingConfig={"thinkingBudget": 500, "thinkingLevel": "LOW"}), 400, "only one of"),
    (FLASH, generation(thinkingConfig={"thinking_level": "LOW"}), 400, "level is not supported"),
    (GENERATE, generation(responseJsonSchema=SCHEMA), 400, "responseMimeType"),
    (GENERATE, as_json({"type": "text"}), 400, "'text' is not a valid type"),
    ("/google/v1/models/gemini-1.5-flash:generateContent", body(), 404, "models/gemini-1.5-flash is not found"),
    ("/google/v1/models/gemini-embedding-001:generateContent", body(), 404, "not supported for this method"),
    ("/google/v1/models/gemini-3.8-flash:guess", body(), 404, "not found"),
    (EMBED, {"requests": []}, 400, "requests"),
    (EMBED, {"requests": [embedded("")]}, 400, "empty Part"),
    (EMBED, {"requests": [embedded("a", model="models/b")]}, 400, "name the model"),
    (EMBED, {"requests": [embedded("a")] * 101}, 400, "at most 100"),
    (EMBED, {"requests": [embedded("a" * 9000)]}, 400, "exceeds the maximum"),
    (EMBED, {"requests": [embedded("a", outputDimensionality=4)]}, 400, "not in 128..3072"),
]


@pytest.mark.parametrize(("path", "sent", "status", "words"), REFUSALS)
async def test_refusals(start: Start, path: str, sent: dict[str, Any], status: int, words: str) -> None:
    line = await start()
    found, _, reply = await line.post(path, sent)
    assert (found, reply["error"]["code"]) == (status, status)
    assert reply["error"]["status"] == {400: "INVALID_ARGUMENT", 404: "NOT_FOUND"}[status]
    assert words in reply["error"]["message"]
    assert (await line.get("/_meter"))["refused"] == 1


async def test_blocks_empties_and_reroutes(start: Start) -> None:
    models = {"refuser": {"refused": 1}, "mute": {"empty": 1}, "gemini-2.5-pro": {"reports_as": "gemini-3.8-flash"}}
    line = await start(accounts={"google": {"models": models}})
    asked = GoogleClient(line).aio.models.generate_content
    blocked = await asked(model="refuser", contents="a")
    assert blocked.candidates is None and blocked.prompt_feedback
    assert blocked.prompt_feedback.block_reason == types.BlockedReason.PROHIBITED_CONTENT
    mute = await asked(model="mute", contents="a")
    assert mute.text is None and mute.candidates
    assert mute.candidates[0].finish_reason == types.FinishReason.STOP
    assert (await asked(model="gemini-2.5-pro", contents="a")).model_version == "gemini-3.8-flash"


def _details(reply: Any) -> dict[str, Any]:
    return {detail["@type"].rsplit(".", 1)[-1]: detail for detail in reply["error"]["details"]}


async def test_limits_a_minute_and_a_day(start: Start) -> None:
    models = {"gemini-3.8-flash": {"requests_per_minute": 1}}
    line = await start(accounts={"google": {"models": models}})
    assert (await line.post(GENERATE, body()))[0] == 200
    status, _, reply = await line.post(GENERATE, body())
    assert (status, reply["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    found = _details(reply)
    assert "PerMinute" in found["QuotaFailure"]["violations"][0]["quotaId"]
    assert 50 < float(found["RetryInfo"]["retryDelay"].removesuffix("s")) <= 60
    line = await start(accounts={"google": {"quota_calls": 0}})
    status, _, reply = await line.post(GENERATE, body())
    assert status == 429
    assert "PerDay" in _details(reply)["QuotaFailure"]["violations"][0]["quotaId"]


async def test_overload_is_503(start: Start) -> None:
    fault = {"kind": "status", "status": 529, "probability": 1, "retry_after_s": 4}
    line = await start(faults=[fault])
    with pytest.raises(errors.ServerError, match="overloaded") as caught:
        await GoogleClient(line).aio.models.generate_content(model="gemini-3.8-flash", contents="a")
    assert (caught.value.code, caught.value.status) == (503, "UNAVAILABLE")
    assert _details(caught.value.details)["RetryInfo"]["retryDelay"] == "4s"
