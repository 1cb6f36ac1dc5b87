"""What can go wrong with whole batches, how each vendor shows it, and what is charged for it."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from google.genai import errors, types
from pydantic import ValidationError

from hab_simulator import Profile
from hab_simulator.batch.faults import BATCH_FAULTS, Expired, Foreign, LostCreate, Struck
from tests.simulator.batches import (
    CHAT,
    PRICES,
    SOON,
    anthropic_client,
    content,
    end_anthropic,
    end_google,
    end_openai,
    google_client,
    google_results,
    jsonl,
    openai_client,
    openai_line,
    results,
    run_openai,
    submit_anthropic,
    submit_google,
    submit_openai,
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
    client = openai_client(line)
    ended = await run_openai(client, map(openai_line, range(ROWS)))
    assert ended.status == kind
    done, rest = await content(client, ended.output_file_id), await content(client, ended.error_file_id)
    assert 10 <= len(done) <= 30 and len(done) + len(rest) == ROWS
    assert all(one["response"] is None and one["error"]["code"] == code for one in rest)
    assert await billed(line) == len(done)


@pytest.mark.parametrize(("kind", "word"), [("expired", "expired"), ("cancelled", "canceled")])
async def test_anthropic_ends_early_and_bills_what_was_done(start: Start, kind: str, word: str) -> None:
    line = await struck(start, {"kind": kind, "done": 0.5})
    client = anthropic_client(line)
    batch = await submit_anthropic(client, ROWS)
    counts = (await end_anthropic(client, batch.id)).request_counts.to_dict()
    kinds = [one.type for one in (await results(client, batch.id)).values()]
    assert 10 <= kinds.count("succeeded") <= 30 and kinds.count("succeeded") + kinds.count(word) == ROWS
    assert (counts["succeeded"], counts[word]) == (kinds.count("succeeded"), kinds.count(word))
    assert await billed(line) == kinds.count("succeeded")


@pytest.mark.parametrize("kind", ["expired", "cancelled"])
async def test_google_ends_early_without_results_or_bill(start: Start, kind: str) -> None:
    line = await struck(start, {"kind": kind})
    client = google_client(line)
    ended = await end_google(client, (await submit_google(client, ROWS)).name)
    assert ended.state == f"JOB_STATE_{kind.upper()}" and ended.dest is None
    assert await billed(line) == 0


async def test_invalid_batches(start: Start) -> None:
    line = await struck(start, {"kind": "invalid"})
    client = openai_client(line)
    assert (await run_openai(client, [openai_line(1)])).status == "failed"
    google = google_client(line)
    assert (await end_google(google, (await submit_google(google, 3)).name)).state == "JOB_STATE_FAILED"
    messages = anthropic_client(line)
    batch = await submit_anthropic(messages, 3)
    assert (await end_anthropic(messages, batch.id)).request_counts.errored == 3
    assert {one.error.error.type for one in (await results(messages, batch.id)).values()} == {"invalid_request_error"}
    assert await billed(line) == 0


async def test_a_stuck_batch_ends_only_when_cancelled(start: Start) -> None:
    line = await struck(start, {"kind": "stuck", "done": 0.5})
    client = openai_client(line)
    batch = await submit_openai(client, map(openai_line, range(ROWS)))
    await asyncio.sleep(0.5)
    assert (await client.batches.retrieve(batch.id)).status == "in_progress"
    await client.batches.cancel(batch.id)
    ended = await end_openai(client, batch.id)
    done = await content(client, ended.output_file_id)
    assert ended.status == "cancelled" and 10 <= len(done) <= 30 and await billed(line) == len(done)


async def test_a_lost_create_makes_a_batch_that_lists_show_later(start: Start) -> None:
    line = await struck(start, {"kind": "lost_create", "hidden_s": 30}, speed=60)
    client, messages, google = openai_client(line), anthropic_client(line), google_client(line)
    file = await client.files.create(file=("a.jsonl", jsonl([openai_line(1)])), purpose="batch")
    with pytest.raises(openai.APIConnectionError):
        await client.batches.create(
            completion_window="24h", endpoint=CHAT, input_file_id=file.id, metadata={"hab": "mine"}
        )
    with pytest.raises(anthropic.APIConnectionError):
        await submit_anthropic(messages, 2)
    with pytest.raises((aiohttp.ClientError, OSError)):
        await submit_google(google, 2, "mine")
    made = await line.get("/_batches")
    assert [(one["account"], one["rows"] > 0, one["tag"]) for one in made[1:]] == [
        ("anthropic", True, None),
        ("google", True, "mine"),
    ]
    assert (await client.batches.list()).data == []
    await asyncio.sleep(0.7)
    assert [one.metadata for one in (await client.batches.list()).data] == [{"hab": "mine"}]
    assert [one.request_counts.succeeded for one in (await messages.messages.batches.list()).data] == [2]
    assert [one.display_name for one in (await google.aio.batches.list()).page] == ["mine"]


async def test_a_refused_create_makes_no_batch(start: Start) -> None:
    line = await struck(start, {"kind": "refused_create", "ordinal": 1})
    client = openai_client(line)
    with pytest.raises(openai.InternalServerError):
        await submit_openai(client, [openai_line(1)])
    assert await line.get("/_batches") == []
    assert (await run_openai(client, [openai_line(1)])).status == "completed"
    google = google_client(line)
    with pytest.raises(errors.ServerError):
        await submit_google(google, 1)


async def test_a_foreign_batch_looks_like_ours_but_for_tag_and_ids(start: Start) -> None:
    line = await struck(start, {"kind": "foreign"})
    client, messages, google = openai_client(line), anthropic_client(line), google_client(line)
    mine = await submit_openai(client, map(openai_line, range(3)), metadata={"hab": "mine"})
    await end_openai(client, mine.id)
    other, found = [one async for one in client.batches.list()]
    assert (found.id, found.metadata, other.metadata) == (mine.id, {"hab": "mine"}, None)
    assert other.request_counts and other.request_counts.total == 3
    batch = await submit_anthropic(messages, 3)
    await end_anthropic(messages, batch.id)
    listed = [one async for one in messages.messages.batches.list()]
    assert len(listed) == 2 and listed[1].id == batch.id
    ended = await end_anthropic(messages, listed[0].id)
    assert sum(ended.request_counts.to_dict().values()) == 3  # type: ignore[arg-type]
    assert set(await results(messages, ended.id)) == {"stranger-0", "stranger-1", "stranger-2"}
    job = await end_google(google, (await submit_google(google, 3, "mine")).name)
    strange, own = [one async for one in await google.aio.batches.list()]
    assert (own.name, own.display_name, strange.display_name) == (job.name, "mine", "")
    await end_google(google, strange.name)
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
    messages, google = anthropic_client(line), google_client(line)
    batch = await submit_anthropic(messages, 1)
    with pytest.raises(anthropic.NotFoundError):
        await messages.messages.batches.retrieve(batch.id)
    assert (await end_anthropic(messages, batch.id)).request_counts.succeeded == 1
    job = await submit_google(google, 1)
    for _ in range(2):
        with pytest.raises(errors.ServerError):
            await google.aio.batches.get(name=str(job.name))
    assert (await end_google(google, job.name)).state == types.JobState.JOB_STATE_SUCCEEDED
    loose = openai.AsyncOpenAI(api_key="k", base_url=line.url + "/openai/v1")
    made = await submit_openai(loose, [openai_line(1)])
    words: list[str] = [(await loose.batches.retrieve(made.id)).status for _ in range(2)]
    assert words[0] == "awaiting_review" and words[1] in ("validating", "in_progress")


async def test_results_may_break_off(start: Start) -> None:
    line = await struck(start, {"kind": "cut_results"})
    client, messages = openai_client(line), anthropic_client(line)
    ended = await run_openai(client, map(openai_line, range(9)))
    with pytest.raises(openai.APIConnectionError):
        await content(client, ended.output_file_id)
    assert len(await content(client, ended.output_file_id)) == 9
    batch = await submit_anthropic(messages, 9)
    ended_url = str((await end_anthropic(messages, batch.id)).results_url)
    with pytest.raises(aiohttp.ClientPayloadError):
        async with line.session.get(ended_url, headers=KEYS) as reply:
            await reply.read()
    assert len(await results(messages, batch.id)) == 9


async def test_an_exhausted_quota_refuses_batches(start: Start) -> None:
    line = await start(batch=SOON, accounts={"openai": {"quota_calls": 2}})
    client = openai_client(line)
    await run_openai(client, map(openai_line, range(2)))
    with pytest.raises(openai.RateLimitError, match="quota"):
        await submit_openai(client, [openai_line(3)])


async def test_faults_find_their_batch_by_ordinal(start: Start) -> None:
    line = await struck(start, {"kind": "expired", "account": "openai", "ordinal": 2})
    client = openai_client(line)
    states = [(await run_openai(client, [openai_line(number)])).status for number in range(3)]
    assert states == ["completed", "expired", "completed"]
    assert await line.control("/_batch_faults", [{"kind": "expired", "done": 0}]) == 200
    assert (await run_openai(client, [openai_line(9)])).status == "expired"
    assert await line.control("/_batch_faults", [{"kind": "unheard_of"}]) == 400


def test_faults_find_their_batch_by_seeded_share() -> None:
    rules = BATCH_FAULTS.validate_python([{"kind": "expired", "probability": 0.3}, {"kind": "foreign"}])

    def hit(seed: int) -> list[int]:
        return [n for n in range(1, 201) if Struck.of(seed, rules, "openai", n).find(Expired)]

    assert 40 <= len(hit(0)) <= 80 and hit(0) == hit(0) != hit(1)
    assert all(Struck.of(0, rules, "openai", n).find(Foreign) for n in range(1, 9))
    assert Struck.of(0, rules, "openai", 1).find(LostCreate) is None


def test_a_profile_with_an_unknown_word_is_refused() -> None:
    for bad in ({"batch": {"turn": 1}}, {"batch_faults": [{"kind": "expired", "half": 1}]}, {"speed": 0}):
        with pytest.raises(ValidationError):
            Profile.model_validate(bad)
    with pytest.raises(ValidationError, match="more than 1"):
        Profile.model_validate({"batch": {"lines": {"failed": 0.6, "missing": 0.6}}})


async def test_results_survive_as_long_as_the_simulator(start: Start) -> None:
    line = await struck(start)
    google = google_client(line)
    job = await end_google(google, (await submit_google(google, 2)).name)
    assert len(await google_results(google, job)) == 2
    await line.control("/_reset", {})
    assert await line.get("/_batches") == []
    with pytest.raises(errors.ClientError):
        await google_results(google, job)
