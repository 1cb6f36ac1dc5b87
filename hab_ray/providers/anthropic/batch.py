"""Anthropic's message batches: the requests go up within the create request, one stream of results comes back.

Source: the API reference and the installed SDK (anthropic 2.12). Requests go through the SDK's generic verbs: its
typed `create` would parse and rewrite the lines of the job, at twelve times the memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing, suppress

import httpx2
from anthropic import APIConnectionError, APIStatusError

from hab_ray.errors import FailureKind, TransientError
from hab_ray.providers.anthropic.chat import connection
from hab_ray.providers.anthropic.errors import blocked, classify
from hab_ray.providers.base import Endpoint, JsonObject, Wire, malformed
from hab_ray.providers.batch_http import (
    MAX_UPLOAD_S,
    SdkErrors,
    answered,
    asking,
    asking_for,
    chunks_of,
    creating_with_rows,
    ending,
    json_of,
    listed_since,
    owner_named,
    reading,
    scrubbed,
    text_field,
)
from hab_ray.providers.batch_lines import compact, read_lines
from hab_ray.providers.batching import BatchJob, BatchSize, BatchStatus, Line, ResultsGone, SeenBatch
from hab_ray.providers.http import rfc3339

_ERRORS = SdkErrors(APIStatusError, APIConnectionError)
_PATH = "/v1/messages/batches"
_PAGE = 1000
_BEGIN, _END = b'{"requests":[', b"]}"
_PIECE = 1 << 20
_OPEN = {"in_progress", "canceling"}
_ENDED = "ended"
_LEFT_UNDONE = {"expired": FailureKind.TIMEOUT, "canceled": FailureKind.STOPPED}
# An errored result carries an error's type and no status; where the type says nothing, the request was at fault.
_STATUS_OF_RESULTS = 400


class AnthropicBatches:
    """Batches of messages at one endpoint."""

    # 256 MB for the whole create request, so a little less for the lines.
    batch_size = BatchSize(rows=100_000, bytes=255_000_000)

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = connection(endpoint)
        self._owner: str | None = None

    def line(self, custom_id: str, wire: Wire) -> bytes:
        return compact({"custom_id": custom_id, "params": wire.body})

    async def owner(self) -> str:
        """The organisation and, if it is named, the workspace, from the headers of the list."""
        if self._owner is None:
            await self.newest()
        return self._owner or ""

    async def newest(self) -> str | None:
        page = await self._page({"limit": 1})
        with reading():
            return str(page["data"][0]["id"]) if page["data"] else None

    async def since(self, newest: str | None) -> list[SeenBatch]:
        """The vendor keeps no tag."""

        async def page_after(last: str | None) -> JsonObject:
            return await self._page({"limit": _PAGE} if last is None else {"limit": _PAGE, "after_id": last})

        return await listed_since(page_after, newest, _seen)

    async def submit(self, job: BatchJob) -> str:
        length = len(_BEGIN) + len(job.lines) - 1 + len(_END)
        headers = {"Content-Type": "application/json", "Content-Length": str(length)}
        if version := job.version or self._endpoint.api_version:
            headers["anthropic-version"] = version
        with creating_with_rows(job):
            request = self._client.post(
                _PATH, content=_envelope(job.lines), options={"headers": headers}, cast_to=httpx2.Response
            )
            return text_field(await self._json(request, MAX_UPLOAD_S), "id")

    async def poll(self, batch_id: str) -> BatchStatus:
        with asking_for(batch_id):
            batch = await self._json(self._client.get(f"{_PATH}/{batch_id}", cast_to=httpx2.Response))
        with reading():
            return _status(batch_id, batch)

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """The path is the documented one, below the endpoint's own URL."""
        if status.lacks_results:
            return
        if not status.results:
            raise ResultsGone(f"batch {status.id}: the vendor keeps results for 29 days and has archived these")
        request = self._client.get(
            f"{_PATH}/{status.id}/results",
            cast_to=httpx2.Response,
            options={"headers": {"Accept": "application/binary"}},
            stream=True,
        )
        with asking_for(status.id):
            response = await self._ask(request)
        async with aclosing(read_lines(self._endpoint, chunks_of(response), _custom_id, self._body)) as lines:
            async for line in lines:
                yield line

    async def cancel(self, batch_id: str) -> None:
        async with ending(batch_id, self.poll):
            await self._ask(self._client.post(f"{_PATH}/{batch_id}/cancel", cast_to=httpx2.Response))

    async def clean_up(self, status: BatchStatus) -> None:
        with suppress(ResultsGone), asking_for(status.id):
            await self._ask(self._client.delete(f"{_PATH}/{status.id}", cast_to=httpx2.Response))

    async def close(self) -> None:
        await self._client.close()

    async def _page(self, params: dict[str, object]) -> JsonObject:
        request = self._client.get(_PATH, cast_to=httpx2.Response, options={"params": params})
        with asking():
            response = await self._ask(request)
            owner = owner_named(response.headers, "anthropic-organization-id", "anthropic-workspace-id")
            self._owner = self._endpoint.without_key(owner)
            return json_of(self._endpoint, response)

    async def _json(self, request: Awaitable[httpx2.Response], limit_s: float | None = None) -> JsonObject:
        return json_of(self._endpoint, await self._ask(request, limit_s))

    async def _ask(self, request: Awaitable[httpx2.Response], limit_s: float | None = None) -> httpx2.Response:
        return await answered(request, self._endpoint, _ERRORS, classify, limit_s)

    def _body(self, record: JsonObject) -> JsonObject:
        """The body that the request would have brought online.

        Raises:
            CallError: what it would have raised online, or that the batch ended before its turn.
        """
        result = record["result"]
        word = str(result["type"])
        if word in _LEFT_UNDONE:
            raise TransientError(_LEFT_UNDONE[word], f"the batch ended before this request's turn ({word})")
        if word == "succeeded":
            message: JsonObject = result["message"]
            return message
        if word != "errored":
            raise malformed(f"a result of the unknown type {word!r}")
        body = scrubbed(self._endpoint, result["error"])
        if blocked(body) is None:
            raise classify(_STATUS_OF_RESULTS, body, None)
        return body


async def _envelope(lines: bytes) -> AsyncIterator[bytes]:
    """The create request around the lines, without a second copy of them: commas take the place of newlines."""
    yield _BEGIN
    end = len(lines) - 1
    for start in range(0, end, _PIECE):
        yield lines[start : min(start + _PIECE, end)].replace(b"\n", b",")
    yield _END


def _custom_id(record: JsonObject) -> object:
    return record.get("custom_id")


def _counts(batch: JsonObject) -> dict[str, int]:
    return {name: int(count or 0) for name, count in batch["request_counts"].items()}


def _seen(batch: JsonObject) -> SeenBatch:
    return SeenBatch(
        id=str(batch["id"]), tag=None, rows=sum(_counts(batch).values()), created=rfc3339(batch.get("created_at"))
    )


def _status(batch_id: str, batch: JsonObject) -> BatchStatus:
    word = str(batch["processing_status"])
    counts = _counts(batch)
    ended = word == _ENDED
    is_archived, is_shown = bool(batch.get("archived_at")), bool(batch.get("results_url"))
    lacks_results = ended and not is_shown and not is_archived
    return BatchStatus(
        id=batch_id,
        word=word,
        ended=ended,
        known=ended or word in _OPEN,
        done=counts.get("succeeded", 0),
        failed=sum(counts.get(name, 0) for name in ("errored", "canceled", "expired")),
        results=(batch_id,) if ended and is_shown and not is_archived else (),
        counters=tuple(counts.values()) if lacks_results else None,
        lacks_results=lacks_results,
    )
