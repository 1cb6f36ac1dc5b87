"""Single lines: their faults, their order, their labels and what they cost."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from hashlib import sha256
from typing import Any

from tests.simulator.batches import (
    PRICES,
    SOON,
    AnthropicClient,
    GoogleClient,
    OpenAiClient,
    chat,
    contents,
    openai_line,
    params,
)
from tests.simulator.conftest import Start

ONLINE = "/openai/v1/chat/completions"


def lines_with(**faults: Any) -> dict[str, Any]:
    return SOON | {"lines": faults}


async def test_failed_lines_draw_anew_and_refused_ones_do_not(start: Start) -> None:
    line = await start(batch=lines_with(failed=0.3, failed_status=503, refused=0.2))
    client = OpenAiClient(line)
    left = set(range(100))
    refused: set[int] = set()
    for round_number in range(9):
        ended = await client.run(map(openai_line, sorted(left)))
        failures = await client.content(ended.error_file_id)
        statuses = {int(one["custom_id"][1:]): one["response"]["status_code"] for one in failures}
        left = set(statuses)
        if round_number == 0:
            refused = {number for number, status in statuses.items() if status == 400}
            assert 10 <= len(refused) <= 30 and 10 <= len(left - refused) <= 40
    assert left == refused
    assert (await line.get("/_meter"))["billed_more_than_once"]["bodies"] == 0


async def test_line_errors_have_the_shape_of_their_vendor(start: Start) -> None:
    line = await start(batch=lines_with(failed=1, failed_status=529))
    messages, google = AnthropicClient(line), GoogleClient(line)
    batch = await messages.run(2)
    assert {one.error.error.type for one in (await messages.results(batch.id)).values()} == {"overloaded_error"}
    job = await google.run(2)
    assert [one["error"]["code"] for one in await google.results(job)] == [14, 14]
    assert (await line.get("/_meter"))["batch"]["lines_billed"] == 0


async def test_missing_doubled_and_foreign_lines(start: Start) -> None:
    line = await start(batch=lines_with(missing=0.2, doubled=0.2, foreign=0.2))
    client = OpenAiClient(line)
    ended = await client.run(map(openai_line, range(100)))
    found = [one["custom_id"] for one in await client.content(ended.output_file_id)]
    strangers = [one["custom_id"] for one in await client.content(ended.error_file_id)]
    assert 70 <= len(set(found)) <= 90 and 8 <= len(found) - len(set(found)) <= 30
    assert 8 <= len(strangers) <= 35 and all(name.startswith("stranger-") for name in strangers)
    meter = await line.get("/_meter")
    assert meter["batch"]["lines_billed"] == len(set(found))
    assert meter["batch"]["lines_missing"] == 100 - len(set(found))
    assert meter["billed_more_than_once"]["bodies"] == 0


async def test_faults_do_not_depend_on_the_order_of_arrival(start: Start) -> None:
    seen = []
    for order in (range(60), reversed(range(60))):
        client = OpenAiClient(await start(batch=lines_with(failed=0.3)))
        ended = await client.run(map(openai_line, order))
        seen.append(
            [
                [(one["custom_id"], one["response"]["status_code"]) for one in await client.content(name)]
                for name in (ended.output_file_id, ended.error_file_id)
            ]
        )
    assert seen[0] == seen[1]
    assert seen[0][0] != sorted(seen[0][0])


async def test_results_in_the_order_of_the_requests_when_not_shuffled(start: Start) -> None:
    client = OpenAiClient(await start(batch=SOON | {"shuffled": False}))
    ended = await client.run(map(openai_line, range(30)))
    found = [one["custom_id"] for one in await client.content(ended.output_file_id)]
    assert found == [f"c{number}" for number in range(30)]


async def test_a_line_costs_half_rounded_once(start: Start) -> None:
    models = {"odd": {"price": {"input": "0.013", "output": "0.4", "cached": "0.007"}, "cached": 1}}
    line = await start(batch=SOON, accounts={"openai": {"models": models}})
    client = OpenAiClient(line)
    bodies = [chat(number, "odd") for number in range(20)]
    bodies.append(chat(20, "odd") | {"messages": [{"role": "user", "content": "word " * 2000}]})
    ended = await client.run([openai_line(number, body) for number, body in enumerate(bodies)])
    expected = 0
    for one in await client.content(ended.output_file_id):
        usage = one["response"]["body"]["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        nanos = (
            (usage["prompt_tokens"] - cached) * Decimal("6.5")
            + cached * Decimal("3.5")
            + usage["completion_tokens"] * Decimal(200)
        )
        expected += int(nanos + Decimal("0.5"))
    meter = await line.get("/_meter")
    assert meter["batch"]["nanousd"] == expected == meter["batch"]["models"][0]["nanousd"]
    assert meter["nanousd"] == 0


async def test_batch_prices_of_a_model_and_of_an_account(start: Start) -> None:
    models = {"gpt-4.1": {"price": {"output": "8"}, "batch_price": {"output": "3"}}, "*": PRICES["*"]}
    line = await start(batch=SOON | {"price_share": "0.25"}, accounts={"openai": {"models": models}})
    client = OpenAiClient(line)
    ended = await client.run([openai_line(1)])
    output = ended.usage.output_tokens if ended.usage else 0
    assert (await line.get("/_meter"))["batch"]["nanousd"] == output * 3000
    other = await client.run([openai_line(1, chat(1, "gpt-4o"))])
    assert other.usage
    assert (await line.get("/_meter"))["batch"]["nanousd"] == (
        output * 3000 + other.usage.input_tokens * 500 + other.usage.output_tokens * 2000
    )


async def test_a_body_sent_online_and_in_a_batch_has_one_label(start: Start) -> None:
    line = await start(batch=SOON)
    client, messages, google = OpenAiClient(line), AnthropicClient(line), GoogleClient(line)
    await client.run(map(openai_line, range(2)))
    await messages.run(2)
    await google.run(2)
    assert (await line.get("/_meter"))["billed_more_than_once"]["bodies"] == 0
    await line.post(ONLINE, chat(1))
    await line.post("/anthropic/v1/messages", params(1))
    await line.post("/google/v1beta/models/gemini-3.8-flash:generateContent", contents(1))
    again = (await line.get("/_meter"))["billed_more_than_once"]
    assert again["bodies"] == 3 and [one["times"] for one in again["first"]] == [2, 2, 2]
    assert {one["account"] for one in again["first"]} == {"openai", "anthropic", "google"}
    await client.run([openai_line(1)])
    again = (await line.get("/_meter"))["billed_more_than_once"]
    assert sorted(one["times"] for one in again["first"]) == [2, 2, 3]


async def test_line_separators_stay_inside_their_line(start: Start) -> None:
    line = await start(batch=SOON | {"separators": 0.5})
    client, messages, google = OpenAiClient(line), AnthropicClient(line), GoogleClient(line)
    ended = await client.run(map(openai_line, range(40)))
    texts = [
        one["response"]["body"]["choices"][0]["message"]["content"]
        for one in await client.content(ended.output_file_id)
    ]
    assert len(texts) == 40 and 8 <= sum("\u2028" in text for text in texts) <= 32
    batch = await messages.run(9)
    assert "\u2028" in "".join(one.message.content[0].text for one in (await messages.results(batch.id)).values())
    job = await google.run(9)
    assert len(await google.results(job)) == 9


async def test_the_truth_counts_what_was_delivered(start: Start) -> None:
    issues = [{"letter": letter, "deduction": 2, "probability": 0.5} for letter in "AB"]
    prompts = {sha256(f"question {number}".encode()).hexdigest(): "d" for number in range(60)}
    planted = {"dimensions": {"d": {"issues": issues}}, "prompts": prompts}
    line = await start(planted=planted, batch=SOON, batch_faults=[{"kind": "expired", "done": 0.5, "ordinal": 1}])
    client = OpenAiClient(line)
    ended = await client.run(map(openai_line, range(60)))
    done = len(await client.content(ended.output_file_id))
    [cell] = await line.get("/_truth")
    assert (cell["subject"], cell["n"]) == ("gpt-4.1", done) and 0 < done < 60
    await client.run(map(openai_line, range(60)))
    [cell] = await line.get("/_truth")
    assert cell["n"] == 60
    await asyncio.gather(*(line.post(ONLINE, chat(number)) for number in range(60)))
    assert await line.get("/_truth") == [cell]
