"""The meter counts exactly."""

import asyncio
import json
from hashlib import sha256

import pytest

from tests.simulator.batches import chat
from tests.simulator.conftest import KEYS, Start, until

CHAT = "/openai/v1/chat/completions"
MODELS = {
    "cheap": {"price": {"input": "0.1", "output": "0.4"}},
    "dear": {"price": {"input": "3", "output": "15"}, "thinking": "always", "sampling": "fixed"},
}


async def test_sums_equal_the_usage_of_the_replies(start: Start) -> None:
    line = await start(accounts={"openai": {"models": MODELS}, "anthropic": {"models": MODELS}})
    replies = [
        (model, (await line.post(CHAT, chat(number, model)))[2]["usage"]) for number in range(10) for model in MODELS
    ]
    for number in range(5):
        await line.post("/anthropic/v1/messages", chat(number, "cheap") | {"max_tokens": 100})
    meter = await line.get("/_meter")
    counts = {(one["account"], one["model"]): one for one in meter["models"]}
    for model, nanos_in, nanos_out in [("cheap", 100, 400), ("dear", 3000, 15000)]:
        usages = [usage for name, usage in replies if name == model]
        tokens_in = sum(usage["prompt_tokens"] for usage in usages)
        tokens_out = sum(usage["completion_tokens"] for usage in usages)
        found = counts["openai", model]
        assert (found["received"], found["billed"]) == (10, 10)
        assert (found["input_tokens"], found["output_tokens"]) == (tokens_in, tokens_out)
        assert found["nanousd"] == tokens_in * nanos_in + tokens_out * nanos_out
        assert found["reasoning_tokens"] == sum(
            usage["completion_tokens_details"]["reasoning_tokens"] for usage in usages
        )
    assert counts["anthropic", "cheap"]["billed"] == 5
    assert meter["received"] == meter["billed"] == 25
    assert meter["nanousd"] == sum(one["nanousd"] for one in meter["models"])


async def test_bodies_billed_more_than_once(start: Start) -> None:
    line = await start()
    for number, times in [(1, 1), (2, 3), (3, 2)]:
        for _ in range(times):
            await line.post(CHAT, chat(number, "m"))
    again = (await line.get("/_meter"))["billed_more_than_once"]
    calls = await line.get("/_calls")
    assert calls[0]["sha256"] == sha256(json.dumps(chat(1, "m")).encode()).hexdigest()
    bodies = [calls[number]["identity"] for number in (1, 4)]
    place = {"account": "openai", "path": "chat/completions"}
    assert again == {
        "bodies": 2,
        "first": [place | {"identity": bodies[0], "times": 3}, place | {"identity": bodies[1], "times": 2}],
    }


async def test_the_same_body_to_another_account_or_model_is_another_call(start: Start) -> None:
    line = await start()
    body = {"contents": [{"parts": [{"text": "hello"}]}]}
    for model in ("gemini-3.7-flash", "gemini-3.8-flash"):
        await line.post(f"/google/v1/models/{model}:generateContent", body)
    for account in ("openai", "x/groq"):
        await line.post(f"/{account}/v1/chat/completions", chat(1, "m"))
    meter = await line.get("/_meter")
    assert (meter["billed"], meter["billed_more_than_once"]["bodies"]) == (4, 0)


async def test_calls_in_order_of_arrival(start: Start) -> None:
    line = await start(keep_bodies=True, faults=[{"kind": "reset", "probability": 1, "model": "bad"}])
    await line.post(CHAT, chat(1, "a"))
    await line.post(CHAT, {"model": "b"})
    with pytest.raises(OSError):
        await line.post(CHAT, chat(1, "bad"))
    calls = await line.get("/_calls")
    assert [(call["number"], call["model"], call["status"], call["outcome"]) for call in calls] == [
        (1, "a", 200, "billed"),
        (2, "b", 400, "refused"),
        (3, "bad", None, "faulted"),
    ]
    assert json.loads(calls[0]["body"]) == chat(1, "a")
    assert [call["number"] for call in await line.get("/_calls?after=1")] == [2, 3]
    assert set(await line.get("/_calls?after=soon")) == {"error"}
    silent = await start()
    await silent.post(CHAT, chat(1, "a"))
    assert "body" not in (await silent.get("/_calls"))[0]


async def test_calls_in_flight_are_counted(start: Start) -> None:
    line = await start(latency={"kind": "fixed", "value_s": 1.0})
    calls = asyncio.gather(*(line.post(CHAT, chat(number, "m")) for number in range(7)))
    await until(line, in_flight=7)
    await calls
    meter = await line.get("/_meter")
    assert (meter["in_flight"], meter["in_flight_max"]) == (0, 7)


async def test_listing_models_and_strange_urls_are_no_calls(start: Start) -> None:
    line = await start()
    async with line.session.get(f"{line.url}/openai/v1/models", headers=KEYS) as response:
        assert response.status == 200
    async with line.session.get(f"{line.url}/elsewhere") as response:
        assert response.status == 404
    assert (await line.get("/_meter"))["received"] == 0
