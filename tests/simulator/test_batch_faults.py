"""What can go wrong with whole batches and with single lines, how each vendor shows it, and what is charged for it."""

import asyncio
from decimal import Decimal
from hashlib import sha256
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from google.genai import errors, types

from hab_simulator.batch.faults import BATCH_FAULTS, Expired, Foreign, LostCreate, Struck
from tests.simulator.batches import (
    CHAT,
    PRICES,
    SOON,
    AnthropicClient,
    GoogleClient,
    OpenAiClient,
    chat,
    contents,
    jsonl,
    openai_line,
    params,
)
from tests.simulator.conftest import KEYS, Line, Start

PRICED = {"openai": {"models": PRICES}, "anthropic": {"models": PRICES}, "google": {"models": PRICES}}
ROWS = 40


async def struck(start: Start, *faults: dict[str, Any], **more: Any) -> Line:
    return await start(batch=SOON, batch_faults=list(faults), accounts=PRICED, **more)


async def billed(line: Line) -> int:
    meter = (await line.get("/_meter"))["batch"]
    assert (meter["nanousd"] > 0) == (meter["lines_billed"] > 0)
    return int(meter["lines_billed"])


@pytest.mark.parametrize(("kind", "code"), [("expired", "batch_expired"), ("cancelled", "batch_cancelled")])
async def test_openai_ends_early_and_bills_what_was_done(start: Start, kind: str, code: str) -> None:
    line = await struck(start, {"kind": kind, "done": 0.5})
    client = OpenAiClient(line)
    ended = await client.run(map(openai_line, range(ROWS)))
    assert ended.status == kind
    done, rest = await client.content(ended.output_file_id), await client.content(ended.error_file_id)
    assert 10 <= len(done) <= 30 and len(done) + len(rest) == ROWS
    assert all(one["response"] is None and one["error"]["code"] == code for one in rest)
    assert await billed(line) == len(done)


@pytest.mark.parametrize(("kind", "word"), [("expired", "expired"), ("cancelled", "canceled")])
async def test_anthropic_ends_early_and_bills_what_was_done(start: Start, kind: str, word: str) -> None:
    line = await struck(start, {"kind": kind, "done": 0.5})
    client = AnthropicClient(line)
    batch = await client.run(ROWS)
    counts = batch.request_counts.to_dict()
    kinds = [one.type for one in (await client.results(batch.id)).values()]
    assert 10 <= kinds.count("succeeded") <= 30 and kinds.count("succeeded") + kinds.count(word) == ROWS
    assert (counts["succeeded"], counts[word]) == (kinds.count("succeeded"), kinds.count(word))
    assert await billed(line) == kinds.count("succeeded")


@pytest.mark.parametrize("kind", ["expired", "cancelled"])
async def test_google_ends_early_without_results_or_bill(start: Start, kind: str) -> None:
    line = await struck(start, {"kind": kind})
    client = GoogleClient(line)
    ended = await client.run(ROWS)
    assert ended.state == f"JOB_STATE_{kind.upper()}" and ended.dest is None
    assert await billed(line) == 0


async def test_invalid_batches(start: Start) -> None:
    line = await struck(start, {"kind": "invalid"})
    client = OpenAiClient(line)
    assert (await client.run([openai_line(1)])).status == "failed"
    google = GoogleClient(line)
    assert (await google.run(3)).state == "JOB_STATE_FAILED"
    messages = AnthropicClient(line)
    batch = await messages.run(3)
    assert batch.request_counts.errored == 3
    assert {one.error.error.type for one in (await messages.results(batch.id)).values()} == {"invalid_request_error"}
    assert await billed(line) == 0


async def test_a_stuck_batch_ends_only_when_cancelled(start: Start) -> None:
    line = await struck(start, {"kind": "stuck", "done": 0.5})
    client = OpenAiClient(line)
    batch = await client.submit(map(openai_line, range(ROWS)))
    await asyncio.sleep(0.5)
    assert (await client.batches.retrieve(batch.id)).status == "in_progress"
    await client.batches.cancel(batch.id)
    ended = await client.end(batch.id)
    done = await client.content(ended.output_file_id)
    assert ended.status == "cancelled" and 10 <= len(done) <= 30 and await billed(line) == len(done)


async def test_a_lost_create_makes_a_batch_that_lists_show_later(start: Start) -> None:
    line = await struck(start, {"kind": "lost_create", "hidden_s": 240}, speed=60)
    client, messages, google = OpenAiClient(line), AnthropicClient(line), GoogleClient(line)
    file = await client.files.create(file=("a.jsonl", jsonl([openai_line(1)])), purpose="batch")
    with pytest.raises(openai.APIConnectionError):
        await client.batches.create(
            completion_window="24h", endpoint=CHAT, input_file_id=file.id, metadata={"hab": "mine"}
        )
    assert (await client.batches.list()).data == []
    with pytest.raises(anthropic.APIConnectionError):
        await messages.submit(2)
    with pytest.raises((aiohttp.ClientError, OSError)):
        await google.submit(2, "mine")
    made = await line.get("/_batches")
    assert [(one["account"], one["rows"] > 0, one["tag"]) for one in made[1:]] == [
        ("anthropic", True, None),
        ("google", True, "mine"),
    ]
    await asyncio.sleep(4.5)
    assert [one.metadata for one in (await client.batches.list()).data] == [{"hab": "mine"}]
    assert [one.request_counts.succeeded for one in (await messages.messages.batches.list()).data] == [2]
    assert [one.display_name for one in (await google.aio.batches.list()).page] == ["mine"]


async def test_a_refused_create_makes_no_batch(start: Start) -> None:
    line = await struck(start, {"kind": "refused_create", "ordinal": 1})
    client = OpenAiClient(line)
    with pytest.raises(openai.InternalServerError):
        await client.submit([openai_line(1)])
    assert await line.get("/_batches") == []
    assert (await client.run([openai_line(1)])).status == "completed"
    google = GoogleClient(line)
    with pytest.raises(errors.ServerError):
        await google.submit(1)


async def test_a_foreign_batch_looks_like_ours_but_for_tag_and_ids(start: Start) -> None:
    line = await struck(start, {"kind": "foreign"})
    client, messages, google = OpenAiClient(line), AnthropicClient(line), GoogleClient(line)
    mine = await client.run(map(openai_line, range(3)), metadata={"hab": "mine"})
    other, found = [one async for one in client.batches.list()]
    assert (found.id, found.metadata, other.metadata) == (mine.id, {"hab": "mine"}, None)
    assert other.request_counts and other.request_counts.total == 3
    batch = await messages.run(3)
    listed = [one async for one in messages.messages.batches.list()]
    assert len(listed) == 2 and listed[1].id == batch.id
    ended = await messages.end(listed[0].id)
    assert sum(ended.request_counts.to_dict().values()) == 3  # type: ignore[arg-type]
    assert set(await messages.results(ended.id)) == {"stranger-0", "stranger-1", "stranger-2"}
    job = await google.run(3, "mine")
    strange, own = [one async for one in await google.aio.batches.list()]
    assert (own.name, own.display_name, strange.display_name) == (job.name, "mine", "")
    await google.end(strange.name)
    assert [one["foreign"] for one in await line.get("/_batches")] == [False, True] * 3
    meter = (await line.get("/_meter"))["batch"]
    assert (meter["created"], meter["completed"], meter["lines_billed"]) == (3, 3, 9)


async def test_polls_that_fail_and_words_nobody_knows(start: Start) -> None:
    faults: list[dict[str, Any]] = [
        {"kind": "poll_error", "polls": 1, "status": 404, "account": "anthropic"},
        {"kind": "poll_error", "polls": 2, "status": 503, "account": "google"},
        {"kind": "odd_state", "polls": 1, "account": "openai"},
    ]
    line = await struck(start, *faults)
    messages, google = AnthropicClient(line), GoogleClient(line)
    batch = await messages.submit(1)
    with pytest.raises(anthropic.NotFoundError):
        await messages.messages.batches.retrieve(batch.id)
    assert (await messages.end(batch.id)).request_counts.succeeded == 1
    job = await google.submit(1)
    for _ in range(2):
        with pytest.raises(errors.ServerError):
            await google.aio.batches.get(name=str(job.name))
    assert (await google.end(job.name)).state == types.JobState.JOB_STATE_SUCCEEDED
    loose = OpenAiClient(line, is_strict=False)
    made = await loose.submit([openai_line(1)])
    words: list[str] = [(await loose.batches.retrieve(made.id)).status for _ in range(2)]
    assert words[0] == "awaiting_review" and words[1] in ("validating", "in_progress", "finalizing", "completed")


async def test_results_may_break_off(start: Start) -> None:
    line = await struck(start, {"kind": "cut_results"})
    client, messages = OpenAiClient(line), AnthropicClient(line)
    ended = await client.run(map(openai_line, range(9)))
    with pytest.raises(openai.APIConnectionError):
        await client.content(ended.output_file_id)
    assert len(await client.content(ended.output_file_id)) == 9
    batch = await messages.run(9)
    ended_url = str(batch.results_url)
    with pytest.raises(aiohttp.ClientPayloadError):
        async with line.session.get(ended_url, headers=KEYS) as reply:
            await reply.read()
    assert len(await messages.results(batch.id)) == 9


async def test_an_exhausted_quota_refuses_batches(start: Start) -> None:
    line = await start(batch=SOON, accounts={"openai": {"quota_calls": 2}})
    client = OpenAiClient(line)
    await client.run(map(openai_line, range(2)))
    with pytest.raises(openai.RateLimitError, match="quota"):
        await client.submit([openai_line(3)])


async def test_faults_find_their_batch_by_ordinal(start: Start) -> None:
    line = await struck(start, {"kind": "expired", "account": "openai", "ordinal": 2})
    client = OpenAiClient(line)
    states = [(await client.run([openai_line(number)])).status for number in range(3)]
    assert states == ["completed", "expired", "completed"]
    assert await line.control("/_batch_faults", [{"kind": "expired", "done": 0}]) == 200
    assert (await client.run([openai_line(9)])).status == "expired"
    assert await line.control("/_batch_faults", [{"kind": "unheard_of"}]) == 400


def test_faults_find_their_batch_by_seeded_share() -> None:
    rules = BATCH_FAULTS.validate_python([{"kind": "expired", "probability": 0.3}, {"kind": "foreign"}])

    def hit(seed: int) -> list[int]:
        return [n for n in range(1, 201) if Struck.of(seed, rules, "openai", n).find(Expired)]

    assert 40 <= len(hit(0)) <= 80 and hit(0) == hit(0) != hit(1)
    assert all(Struck.of(0, rules, "openai", n).find(Foreign) for n in range(1, 9))
    assert Struck.of(0, rules, "openai", 1).find(LostCreate) is None


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


async def test_the_lines_of_a_batch_are_never_all_missing(start: Start) -> None:
    """A vendor that counts answers and shows none withholds a batch: its rows are booked, and not sent again."""
    line = await start(batch=lines_with(missing=1.0))
    client = OpenAiClient(line)
    for count in (1, 3):
        ended = await client.run(map(openai_line, range(count)))
        (found,) = await client.content(ended.output_file_id)
        assert found["custom_id"] == (await client.content(ended.input_file_id))[-1]["custom_id"]
    assert (await line.get("/_meter"))["batch"]["lines_billed"] == 2


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
