"""OpenAI's batches, seen through the vendor's SDK in strict mode."""

import asyncio
import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion

from hab_simulator.openai import batch_files
from tests.simulator.batches import CHAT, SOON, OpenAiClient, chat, jsonl, openai_line
from tests.simulator.conftest import KEYS, Start

EMBED = "/v1/embeddings"


@pytest.mark.parametrize("base", ["/openai/v1", "/x/groq/v1"])
async def test_from_upload_to_delete(start: Start, base: str) -> None:
    line = await start(batch=SOON)
    client = OpenAiClient(line, base)
    batch = await client.submit(map(openai_line, range(7)), metadata={"hab": "tag-1"})
    assert (batch.status, batch.metadata, batch.output_file_id) == ("validating", {"hab": "tag-1"}, None)
    ended = await client.end(batch.id)
    assert ended.status == "completed" and ended.model == "gpt-4.1" and not ended.error_file_id
    assert ended.request_counts and ended.request_counts.to_dict() == {"completed": 7, "failed": 0, "total": 7}
    assert ended.completed_at and ended.expires_at and ended.expires_at - ended.created_at == 86_400
    lines = await client.content(ended.output_file_id)
    assert {one["custom_id"] for one in lines} == {f"c{number}" for number in range(7)}
    replies = [ChatCompletion.model_validate(one["response"]["body"], strict=True) for one in lines]
    assert all(one["error"] is None and one["response"]["status_code"] == 200 for one in lines)
    _, _, online = await line.post(f"{base}/chat/completions", chat(3))
    assert next(one["response"]["body"] for one in lines if one["custom_id"] == "c3") == online
    assert ended.usage and ended.usage.total_tokens == sum(one.usage.total_tokens for one in replies if one.usage)
    for name in (ended.input_file_id, str(ended.output_file_id)):
        assert (await client.files.content(name)).content
        assert (await client.files.delete(name)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.files.content(name)


async def test_lists_page_newest_first(start: Start) -> None:
    client = OpenAiClient(await start(batch=SOON))
    made = [(await client.submit([openai_line(number)])).id for number in range(5)]
    first = await client.batches.list(limit=2)
    assert [batch.id for batch in first.data] == made[:2:-1] and first.has_more
    assert [batch.id async for batch in client.batches.list(limit=2)] == made[::-1]
    assert [batch.id async for batch in client.batches.list(after=made[2])] == made[1::-1]
    with pytest.raises(openai.BadRequestError):
        await client.batches.list(after="batch_unknown")


async def test_a_file_without_an_ending_is_taken(start: Start) -> None:
    client = OpenAiClient(await start(batch=SOON))
    file = await client.files.create(file=jsonl([openai_line(1)]), purpose="batch")
    job = await client.batches.create(completion_window="24h", endpoint=CHAT, input_file_id=file.id)
    ended = await client.end(job.id)
    assert (file.filename, ended.status, ended.error_file_id) == ("upload", "completed", None)


BAD_INPUTS: list[tuple[bytes, str, int | None]] = [
    (b"", "empty_file", None),
    (b"\n\n", "empty_file", None),
    (jsonl([openai_line(1)]) + b'{"custom_id": \n', "invalid_json_line", 2),
    (b"[]\n", "invalid_json_line", 1),
    (jsonl([openai_line(1), openai_line(2), openai_line(1)]), "duplicate_custom_id", 3),
    (jsonl([openai_line(1), openai_line(2, url=EMBED)]), "invalid_url", 2),
    (jsonl([openai_line(1), openai_line(2) | {"method": "GET"}]), "invalid_url", 2),
    (jsonl([openai_line(1), openai_line(2, chat(2, "gpt-4o"))]), "mismatched_model", 2),
    (jsonl([{"custom_id": "a", "method": "POST", "url": CHAT}]), "missing_required_parameter", 1),
    (jsonl([openai_line(1) | {"priority": 1}]), "invalid_request", 1),
    (jsonl([openai_line(1) | {"custom_id": 1}]), "invalid_request", 1),
    (jsonl(openai_line(n, {"model": "m", "input": ["a"] * 25_001}, CHAT) for n in range(2)), "too_many_tasks", None),
]


@pytest.mark.parametrize(("data", "code", "number"), BAD_INPUTS, ids=[case[1] for case in BAD_INPUTS])
async def test_bad_input_fails_the_batch_and_costs_nothing(
    start: Start, data: bytes, code: str, number: int | None
) -> None:
    line = await start(batch=SOON)
    client = OpenAiClient(line)
    file = await client.files.create(file=("a.jsonl", data), purpose="batch")
    batch = await client.batches.create(completion_window="24h", endpoint=CHAT, input_file_id=file.id)
    failed = await client.end(batch.id)
    assert failed.status == "failed" and failed.failed_at and failed.output_file_id is None
    assert failed.errors and failed.errors.data
    assert [(one.code, one.line) for one in failed.errors.data] == [(code, number)]
    meter = (await line.get("/_meter"))["batch"]
    assert (meter["created"], meter["failed"], meter["lines_billed"]) == (1, 1, 0)


async def test_refused_lines_stand_in_the_error_file(start: Start) -> None:
    client = OpenAiClient(await start(batch=SOON))
    lines = [openai_line(1), openai_line(2, chat(2) | {"temperature": 9}), openai_line(3, chat(3) | {"foo": 1})]
    ended = await client.run(lines)
    assert ended.request_counts and ended.request_counts.to_dict() == {"completed": 1, "failed": 2, "total": 3}
    assert [one["custom_id"] for one in await client.content(ended.output_file_id)] == ["c1"]
    for one in await client.content(ended.error_file_id):
        assert one["error"] is None and one["response"]["status_code"] == 400
        assert one["response"]["body"]["error"]["type"] == "invalid_request_error"
    none = await client.run([openai_line(4, chat(4, "o3") | {"max_tokens": 5})])
    assert (none.status, none.output_file_id) == ("completed", None) and none.error_file_id


async def test_clean_batches_have_an_empty_or_no_error_file(start: Start) -> None:
    for share, expected in ((0, None), (1, "")):
        client = OpenAiClient(await start(batch=SOON | {"clean_error_file": share}))
        assert (await client.run([openai_line(1)])).error_file_id == expected


async def test_a_full_queue_fails_the_batch_until_there_is_room(start: Start) -> None:
    models = {"gpt-4.1": {"batch_queue_tokens": 100}, "gpt-4o": {}}
    slow = {"turnaround": {"kind": "fixed", "value_s": 1.0}}
    client = OpenAiClient(await start(batch=slow, accounts={"openai": {"models": models}}))
    first = await client.submit(map(openai_line, range(8)))
    while (await client.batches.retrieve(first.id)).status != "in_progress":
        await asyncio.sleep(0.01)
    full = await client.run(map(openai_line, range(8, 16)))
    assert full.status == "failed" and full.errors and full.errors.data
    assert full.errors.data[0].code == "token_limit_exceeded"
    other = await client.submit([openai_line(1, chat(1, "gpt-4o"))])
    assert (await client.end(first.id)).status == "completed"
    assert (await client.run(map(openai_line, range(8, 16)))).status == "completed"
    assert (await client.end(other.id)).status == "completed"


async def test_refused_uploads_and_creates(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = OpenAiClient(await start())
    monkeypatch.setattr(batch_files, "MAX_BYTES", 1000)
    for name, data, words in [("a.json", b"{}", "Must be .jsonl"), ("a.jsonl", b"a" * 1001, "too large")]:
        with pytest.raises(openai.BadRequestError, match=words):
            await client.files.create(file=(name, data), purpose="batch")
    with pytest.raises(openai.BadRequestError, match="purpose"):
        await client.files.create(file=("a.jsonl", b"{}"), purpose="vision")
    file = await client.files.create(file=("a.jsonl", b"a" * 1000), purpose="batch")
    good: dict[str, Any] = {"completion_window": "24h", "endpoint": CHAT, "input_file_id": file.id}
    for bad in ({"endpoint": "/v1/x"}, {"completion_window": "1h"}, {"input_file_id": "file-0"}, {"extra": 1}):
        with pytest.raises(openai.BadRequestError):
            await client.post("/batches", body=good | bad, cast_to=object)


async def test_keys_unknown_ids_and_odd_urls(start: Start) -> None:
    line = await start(accounts={"openai": {"keys": ["other"]}})
    with pytest.raises(openai.AuthenticationError):
        await OpenAiClient(line).batches.list()
    client = OpenAiClient(await start())
    for call in (client.batches.retrieve, client.batches.cancel, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError):
            await call("unknown")
    line = await start()
    assert (await line.post("/openai/v1/batches/a/b/c", {}, KEYS))[0] == 404
    async with line.session.post(line.url + "/openai/v1/files", data=b"no form", headers=KEYS) as reply:
        assert reply.status == 400 and json.loads(await reply.read())["error"]
