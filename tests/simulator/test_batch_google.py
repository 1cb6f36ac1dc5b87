"""Gemini's files and batches, seen through the vendor's SDK (both transports) and through raw requests."""

import asyncio
import io
from typing import Any

import pytest
from google.genai import errors, types

from tests.simulator.batches import SOON, GoogleClient, contents
from tests.simulator.conftest import Line, Start

CREATE = "/google/v1/models/gemini-3.8-flash:batchGenerateContent"
SUCCEEDED = types.JobState.JOB_STATE_SUCCEEDED


async def test_from_upload_to_delete(start: Start) -> None:
    line = await start(batch=SOON)
    client = GoogleClient(line)
    job = await client.submit(6, "tag-1")
    assert (job.state, job.display_name) == (types.JobState.JOB_STATE_PENDING, "tag-1")
    ended = await client.end(job.name)
    assert ended.state == SUCCEEDED and ended.end_time and ended.model == "models/gemini-3.8-flash"
    found = await client.results(ended)
    assert {one["key"] for one in found} == {f"c{number}" for number in range(6)}
    for one in found:
        types.GenerateContentResponse.model_validate(one["response"])
    _, _, online = await line.post("/google/v1/models/gemini-3.8-flash:generateContent", contents(3))
    assert next(one["response"] for one in found if one["key"] == "c3") == online
    operation = await line.get(f"/google/v1/{job.name}?key=k")
    assert operation["done"] and ended.dest and operation["response"]["responsesFile"] == ended.dest.file_name
    assert operation["metadata"]["batchStats"] == {"requestCount": "6", "successfulRequestCount": "6"}
    for name in (operation["metadata"]["inputConfig"]["fileName"], ended.dest.file_name):
        await client.aio.files.delete(name=str(name))
        with pytest.raises(errors.ClientError, match="PERMISSION_DENIED"):
            await client.aio.files.delete(name=str(name))
    await client.aio.batches.delete(name=str(job.name))
    with pytest.raises(errors.ClientError, match="404"):
        await client.aio.batches.get(name=str(job.name))


async def test_uploads_in_several_chunks(start: Start) -> None:
    client = GoogleClient(await start())
    data = bytes(range(256)) * (9 * 4096 + 1)
    for upload_in in (client.aio.files.upload, None):
        config = types.UploadFileConfig(mime_type="application/jsonl")
        if upload_in is None:
            file = await asyncio.to_thread(client.files.upload, file=io.BytesIO(data), config=config)
        else:
            file = await upload_in(file=io.BytesIO(data), config=config)
        assert file.size_bytes == len(data) > 8 * 1024**2


async def test_a_small_file_may_come_back_inline(start: Start) -> None:
    client = GoogleClient(await start(batch=SOON | {"inline_rows": 3}))
    small, large = await client.submit(3), await client.submit(4)
    ended = await client.end(small.name)
    assert ended.dest and ended.dest.file_name is None and ended.dest.inlined_responses
    assert sorted(str((one.metadata or {})["key"]) for one in ended.dest.inlined_responses) == ["c0", "c1", "c2"]
    assert len(await client.results(await client.end(large.name))) == 4


async def test_embeddings_in_a_file(start: Start) -> None:
    client = GoogleClient(await start(batch=SOON))
    request = {"content": {"parts": [{"text": "my dog"}]}, "output_dimensionality": 128}
    name = await client.upload([{"key": "a", "request": request}])
    model = "gemini-embedding-001"
    job = await client.aio.batches.create_embeddings(model=model, src=types.EmbeddingsBatchJobSource(file_name=name))
    [one] = await client.results(await client.end(job.name))
    assert len(one["response"]["embedding"]["values"]) == 128
    assert one["response"]["usageMetadata"]["promptTokenCount"] == 2


async def test_errors_stand_in_their_lines_as_grpc_status(start: Start) -> None:
    client = GoogleClient(await start(batch=SOON))
    bad = contents(1) | {"thinking_config": {}}
    name = await client.upload([{"key": "good", "request": contents(1)}, {"key": "bad", "request": bad}])
    job = await client.aio.batches.create(model="gemini-3.8-flash", src=name)
    found = {one["key"]: one for one in await client.results(await client.end(job.name))}
    assert "response" in found["good"] and set(found["bad"]["error"]) == {"code", "message"}
    assert found["bad"]["error"]["code"] == 3
    types.JobError.model_validate(found["bad"]["error"])


@pytest.mark.parametrize("data", [b"", b"no json\n", b'{"key": "a"}\n'])
async def test_bad_files_make_no_batch(start: Start, data: bytes) -> None:
    line = await start(batch=SOON)
    client = GoogleClient(line)
    config = types.UploadFileConfig(mime_type="application/jsonl")
    file = await client.aio.files.upload(file=io.BytesIO(data), config=config)
    with pytest.raises(errors.ClientError) as refused:
        await client.aio.batches.create(model="gemini-3.8-flash", src=str(file.name))
    assert (refused.value.code, refused.value.status) == (400, "INVALID_ARGUMENT")
    assert (await line.get("/google/v1beta/batches?key=k"))["operations"] == []


async def test_one_malformed_row_of_many_makes_no_batch_and_is_not_named(start: Start) -> None:
    line = await start(batch=SOON | {"lines": {"malformed": 1.0}})
    with pytest.raises(errors.ClientError, match=r"INVALID_ARGUMENT.*Request contains an invalid argument\."):
        await GoogleClient(line).submit(3)


async def test_a_model_that_takes_no_batches_is_not_found(start: Start) -> None:
    models = {"gemini-3.8-flash": {"by_batch": "refused"}}
    line = await start(batch=SOON, accounts={"google": {"models": models}})
    with pytest.raises(errors.ClientError, match="not supported for batchGenerateContent"):
        await GoogleClient(line).submit(3)


async def test_lists_page_newest_first(start: Start) -> None:
    client = GoogleClient(await start(batch=SOON))
    made = [(await client.submit(1, f"tag-{number}")).name for number in range(5)]
    pager = await client.aio.batches.list(config={"page_size": 2})
    assert [(job.name, job.display_name) for job in pager.page] == [(made[4], "tag-4"), (made[3], "tag-3")]
    assert [job.name async for job in pager] == made[::-1]


async def test_cancelled_batches_have_no_results_and_cost_nothing(start: Start) -> None:
    line = await start(batch={"turnaround": {"kind": "fixed", "value_s": 3600.0}}, speed=3600)
    client = GoogleClient(line)
    job = await client.submit(10)
    await asyncio.sleep(0.3)
    await client.aio.batches.cancel(name=str(job.name))
    ended = await client.end(job.name)
    assert ended.state == types.JobState.JOB_STATE_CANCELLED and ended.dest is None
    meter = (await line.get("/_meter"))["batch"]
    assert (meter["cancelled"], meter["lines_undone"], meter["lines_billed"], meter["nanousd"]) == (1, 10, 0, 0)
    with pytest.raises(errors.ClientError):
        await client.aio.batches.cancel(name=str(job.name))


async def test_jobs_and_tokens_in_the_queue_are_limited(start: Start) -> None:
    models = {"gemini-3.8-flash": {"batch_queue_tokens": 100}}
    slow = {"turnaround": {"kind": "fixed", "value_s": 600}}
    client = GoogleClient(await start(batch=slow, accounts={"google": {"models": models, "batch_jobs": 2}}))
    first = await client.submit(6)
    with pytest.raises(errors.ClientError, match="Enqueued token"):
        await client.submit(6)
    await client.submit(1)
    with pytest.raises(errors.ClientError, match="concurrent"):
        await client.submit(1)
    await client.aio.batches.cancel(name=str(first.name))
    await client.end(first.name)
    await client.submit(6)


def batch(**source: Any) -> dict[str, Any]:
    return {"batch": {"displayName": "t", "inputConfig": source}}


BAD_CREATES = [
    (CREATE, batch(), 400),
    (CREATE, batch(fileName="files/none"), 400),
    (CREATE, batch(fileName="files/a", requests={"requests": []}), 400),
    (CREATE, {"batch": {"input": 1}}, 400),
    (CREATE.replace("3.8", "1.5"), batch(fileName="files/a"), 404),
    (CREATE.replace("batchGenerateContent", "asyncBatchEmbedContent"), batch(fileName="files/a"), 404),
    ("/google/v1/batches/none:cancel", {}, 404),
    ("/google/upload/v1/files?upload_id=none", {}, 400),
]


@pytest.mark.parametrize(("path", "body", "status"), BAD_CREATES)
async def test_refusals(start: Start, path: str, body: Any, status: int) -> None:
    line: Line = await start()
    assert (await line.post(path, body))[0] == status
    assert await line.get("/_batches") == []
    assert (await line.get("/google/v1/files/none?key=k"))["error"]["status"] == "PERMISSION_DENIED"
    assert (await line.post(path, body, {}))[0] in (403, 400)
