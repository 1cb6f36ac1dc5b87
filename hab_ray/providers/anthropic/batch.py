"""Anthropic's message batches: the requests go up within the create request, one stream of results comes back.

Source: the API reference and the installed SDK (anthropic 2.12). Requests go through the SDK's generic verbs: its
typed `create` would parse and rewrite the lines of the job, at twelve times the memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress

from typing_extensions import override

from hab_ray.errors import FailureKind, TransientError
from hab_ray.providers.anthropic.chat import SDK
from hab_ray.providers.anthropic.errors import blocked, classify
from hab_ray.providers.base import Endpoint, JsonObject, Wire, malformed, reading
from hab_ray.providers.batch_http import asking_for, creating_with_rows, scrubbed, text_field
from hab_ray.providers.batch_lines import compact
from hab_ray.providers.batching import BatchJob, BatchSize, BatchStatus, Line, ResultsGone, SeenBatch
from hab_ray.providers.http import rfc3339
from hab_ray.providers.sdk import SdkAccount, SdkBatches

_BEGIN, _END = b'{"requests":[', b"]}"
_PIECE = 1 << 20
_OPEN = {"in_progress", "canceling"}
_ENDED = "ended"
_LEFT_UNDONE = {"expired": FailureKind.TIMEOUT, "canceled": FailureKind.STOPPED}
# An errored result carries an error's type and no status; where the type says nothing, the request was at fault.
_STATUS_OF_RESULTS = 400


class AnthropicBatches(SdkBatches):
    """Batches of messages at one endpoint. The vendor keeps no tag."""

    # 256 MB for the whole create request, so a little less for the lines.
    batch_size = BatchSize(rows=100_000, bytes=255_000_000)
    path, page_rows, after = "/v1/messages/batches", 1000, "after_id"
    owner_headers = "anthropic-organization-id", "anthropic-workspace-id"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(SdkAccount(endpoint, SDK))

    def line(self, custom_id: str, wire: Wire) -> bytes:
        return compact({"custom_id": custom_id, "params": wire.body})

    async def submit(self, job: BatchJob) -> str:
        length = len(_BEGIN) + len(job.lines) - 1 + len(_END)
        headers = {"Content-Type": "application/json", "Content-Length": str(length)}
        if version := job.version or self._endpoint.api_version:
            headers["anthropic-version"] = version
        with creating_with_rows(job):
            return text_field(
                self._account.read(await self._account.send(self.path, _envelope(job.lines), headers)), "id"
            )

    @override
    async def poll(self, batch_id: str) -> BatchStatus:
        batch = await self.get(batch_id)
        with reading():
            return _status(batch_id, batch)

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """The path is the documented one, below the endpoint's own URL."""
        if status.lacks_results:
            return
        if not status.results:
            raise ResultsGone(f"batch {status.id}: the vendor keeps results for 29 days and has archived these")
        accepted = {"Accept": "application/binary"}
        async with aclosing(self.lines(status.id, f"{self.path}/{status.id}/results", accepted)) as lines:
            async for line in lines:
                yield line

    async def clean_up(self, status: BatchStatus) -> None:
        with suppress(ResultsGone), asking_for(status.id):
            await self._account.delete(f"{self.path}/{status.id}")

    @override
    def seen(self, batch: JsonObject) -> SeenBatch:
        return SeenBatch(
            id=str(batch["id"]), tag=None, rows=sum(_counts(batch).values()), created=rfc3339(batch.get("created_at"))
        )

    @override
    def body(self, record: JsonObject) -> JsonObject:
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


def _counts(batch: JsonObject) -> dict[str, int]:
    return {name: int(count or 0) for name, count in batch["request_counts"].items()}


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
