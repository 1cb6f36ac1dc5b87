"""OpenAI's batches, which many compatible accounts serve too: a file goes up, a batch is made of it, files come back.

Source: the API reference and the installed SDK (openai 3.54). Requests go through the SDK's generic verbs, since
its types would refuse or drop what compatible accounts add.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import httpx2
from openai import APIConnectionError, APIStatusError

from hab_ray.errors import CallError, FailureKind, RateLimited, TransientError
from hab_ray.providers.base import Endpoint, JsonObject, Wire, malformed
from hab_ray.providers.batch_http import (
    LONGEST_UPLOAD_S,
    PAGE,
    Refused,
    asking,
    asking_for,
    chunks_of,
    creating,
    listed_since,
    reading,
    refusal,
    scrubbed,
    text_field,
)
from hab_ray.providers.batch_lines import compact, read_lines
from hab_ray.providers.batching import BatchJob, BatchSize, BatchStatus, InDoubt, Line, ResultsGone, SeenBatch
from hab_ray.providers.http import Headers, broken, json_object
from hab_ray.providers.openai import connection
from hab_ray.providers.openai_errors import blocked, classify, error_status

_TAG = "hab_tag"
_OPEN = {"validating", "in_progress", "finalizing", "cancelling"}
_ENDED = {"failed", "completed", "expired", "cancelled"}
_QUEUE_FULL = "token_limit_exceeded"
_LEFT_UNDONE = {
    "batch_expired": FailureKind.TIMEOUT,
    "batch_cancelled": FailureKind.STOPPED,
    "request_timeout": FailureKind.TIMEOUT,
}
_HAS_ENDED = {400, 409}


class OpenAIBatches:
    """Batches of chat completions or embeddings at one endpoint. See BatchApi."""

    # An embeddings batch may hold 50,000 inputs too: one text a line.
    batch_size = BatchSize(rows=50_000, bytes=200_000_000)

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = connection(endpoint)
        self._owner: str | None = None

    def line(self, custom_id: str, wire: Wire) -> bytes:
        """See BatchApi."""
        return compact({"custom_id": custom_id, "method": "POST", "url": _url(wire.path), "body": wire.body})

    async def owner(self) -> str:
        """Organisation and project, as the list's headers say: other answers of the vendor name them less often."""
        if self._owner is None:
            await self.newest()
        return self._owner or ""

    async def newest(self) -> str | None:
        """See BatchApi."""
        page = await self._page({"limit": 1})
        with reading():
            return str(page["data"][0]["id"]) if page["data"] else None

    async def since(self, newest: str | None) -> list[SeenBatch]:
        """See BatchApi."""

        async def page_after(last: str | None) -> JsonObject:
            return await self._page({"limit": PAGE} if last is None else {"limit": PAGE, "after": last})

        return await listed_since(page_after, newest, _seen)

    async def submit(self, job: BatchJob) -> str:
        """See BatchApi. The file of a batch that was clearly refused is deleted again."""
        file_id = await self._upload(job)
        body = {
            "input_file_id": file_id,
            "endpoint": _url(job.path),
            "completion_window": "24h",
            "metadata": {_TAG: job.tag},
        }
        try:
            with creating():
                request = self._client.post("/batches", body=body, cast_to=httpx2.Response)
                return text_field(await self._json(request), "id")
        except InDoubt:
            raise
        except CallError:
            with suppress(CallError):
                await self._delete_file(file_id)
            raise

    async def poll(self, batch_id: str) -> BatchStatus:
        """See BatchApi."""
        with asking_for(batch_id):
            batch = await self._batch(batch_id)
        with reading():
            return self._status(batch_id, batch)

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """See BatchApi. Rejected requests stand in a file of their own, which is read after the other."""
        for file_id in status.results:
            request = self._client.get(f"/files/{file_id}/content", cast_to=httpx2.Response, stream=True)
            with asking_for(status.id):
                response = await self._ask(request)
            async with aclosing(read_lines(chunks_of(response), _custom_id, self._body)) as lines:
                async for line in lines:
                    yield line

    async def cancel(self, batch_id: str) -> None:
        """See BatchApi."""
        with asking_for(batch_id):
            try:
                await self._ask(self._client.post(f"/batches/{batch_id}/cancel", cast_to=httpx2.Response))
            except Refused as refused:
                if refused.status not in _HAS_ENDED or not (await self.poll(batch_id)).ended:
                    raise

    async def clean_up(self, batch_id: str) -> None:
        """See BatchApi. The vendor keeps the batch itself, without its files."""
        with suppress(ResultsGone):
            with asking_for(batch_id):
                batch = await self._batch(batch_id)
            for name in ("input_file_id", "output_file_id", "error_file_id"):
                if batch.get(name):
                    await self._delete_file(batch[name])

    async def close(self) -> None:
        """See BatchApi."""
        await self._client.close()

    async def _upload(self, job: BatchJob) -> str:
        file = (f"{job.tag}.jsonl", BytesIO(job.lines), "application/jsonl")
        request = self._client.post(
            "/files",
            body={"purpose": "batch"},
            files=[("file", file)],
            options={"headers": {"Content-Type": "multipart/form-data"}},
            cast_to=httpx2.Response,
        )
        with asking():
            return text_field(await self._json(request, LONGEST_UPLOAD_S), "id")

    async def _delete_file(self, file_id: str) -> None:
        with suppress(ResultsGone), asking_for(file_id):
            await self._ask(self._client.delete(f"/files/{file_id}", cast_to=httpx2.Response))

    async def _page(self, params: dict[str, object]) -> JsonObject:
        request = self._client.get("/batches", cast_to=httpx2.Response, options={"params": params})
        with asking():
            response = await self._ask(request)
            self._owner = _owner(response.headers)
            return self._read(response)

    async def _batch(self, batch_id: str) -> JsonObject:
        return await self._json(self._client.get(f"/batches/{batch_id}", cast_to=httpx2.Response))

    async def _json(self, request: Awaitable[httpx2.Response], limit_s: float | None = None) -> JsonObject:
        return self._read(await self._ask(request, limit_s))

    async def _ask(self, request: Awaitable[httpx2.Response], limit_s: float | None = None) -> httpx2.Response:
        try:
            async with asyncio.timeout(limit_s or self._endpoint.timeout_s):
                return await request
        except APIStatusError as error:
            raise refusal(self._endpoint, error.response, classify) from None
        except (APIConnectionError, TimeoutError) as error:
            raise broken(error) from None

    def _read(self, response: httpx2.Response) -> JsonObject:
        body = json_object(self._endpoint.without_key(response.text))
        status = error_status(body)
        if status is not None and "id" not in body:
            raise Refused(status, classify(status, body, None))
        return body

    def _status(self, batch_id: str, batch: JsonObject) -> BatchStatus:
        word = str(batch["status"])
        counts = batch.get("request_counts") or {}
        files = (batch.get("output_file_id"), batch.get("error_file_id"))
        return BatchStatus(
            id=batch_id,
            word=word,
            ended=word in _ENDED,
            known=word in _OPEN | _ENDED,
            done=int(counts.get("completed") or 0),
            failed=int(counts.get("failed") or 0),
            problem=_problem(batch) if word == "failed" else None,
            results=tuple(str(file_id) for file_id in files if file_id) if word in _ENDED else (),
        )

    def _body(self, record: JsonObject) -> JsonObject:
        """The body that the request would have brought online.

        Raises:
            CallError: what it would have raised online, or that the batch ended before its turn.
        """
        response, error = record.get("response"), record.get("error")
        if not response:
            raise _undone(scrubbed(self._endpoint, {"error": error}))
        status, body = int(response["status_code"]), response["body"]
        if status < 400:
            told = error_status(body)
            if told is None:
                return _object(body)
            status = told
        body = scrubbed(self._endpoint, body)
        if blocked(body) is None:
            raise classify(status, body, None)
        return body


def _url(path: str) -> str:
    """A wire's path as batches name it: always below /v1, whatever the endpoint's own base is."""
    return f"/v1{path}"


def _custom_id(record: JsonObject) -> object:
    return record.get("custom_id")


def _object(body: Any) -> JsonObject:
    if not isinstance(body, Mapping):
        raise malformed("the body of a result line is no JSON object")
    return body


def _owner(headers: Headers) -> str:
    names = (headers.get("openai-organization"), headers.get("openai-project"))
    return "/".join(name for name in names if name)


def _seen(batch: JsonObject) -> SeenBatch:
    """A listed batch; servers that speak OpenAI's protocol and leave `metadata` out keep no tags."""
    made = batch.get("created_at")
    return SeenBatch(
        id=str(batch["id"]),
        tag=(batch["metadata"] or {}).get(_TAG, "") if "metadata" in batch else None,
        rows=(batch.get("request_counts") or {}).get("total") or None,
        created=None if made is None else datetime.fromtimestamp(made, UTC),
    )


def _problem(batch: JsonObject) -> CallError:
    """Why the vendor refused a batch when it looked into its file."""
    problems = (batch.get("errors") or {}).get("data") or []
    if not problems:
        return TransientError(FailureKind.SERVER, "the batch failed and the vendor does not say why")
    full = next((problem for problem in problems if problem.get("code") == _QUEUE_FULL), None)
    if full is not None:
        return RateLimited(f"{_QUEUE_FULL}: {full.get('message')}", None)
    first = problems[0]
    line = "" if first.get("line") is None else f" (line {first['line']})"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return classify(400, {"error": {**first, "message": f"{first.get('message')}{line}{more}"}}, None)


def _undone(body: JsonObject) -> CallError:
    """The error of a line that brought no HTTP answer; the request was not billed and may be made again."""
    error = body.get("error")
    problem = error if isinstance(error, Mapping) else {}
    code = str(problem.get("code"))
    if code in _LEFT_UNDONE:
        return TransientError(_LEFT_UNDONE[code], f"{code}: {problem.get('message')}")
    return classify(500, body, None)
