"""Anthropic's message batches: the create request holds all requests, and one stream returns the results.

Source: the API reference and the installed SDK (anthropic 2.12). Requests use the SDK's generic methods: its typed
`create` would parse and rewrite the lines of the job, with twelve times the memory.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress

from typing_extensions import override

from hab_ray.errors import FailureKind, TransientError
from hab_ray.providers.anthropic.chat import SDK
from hab_ray.providers.anthropic.errors import blocked, classify
from hab_ray.providers.base import Endpoint, JsonObject, Wire, malformed, reading
from hab_ray.providers.batch_http import creating_with_rows, item_errors, masked_error, text_field
from hab_ray.providers.batch_lines import batch_line
from hab_ray.providers.batching import BatchJob, BatchSize, BatchStatus, Line, ResultsGone, SeenBatch
from hab_ray.providers.http import rfc3339
from hab_ray.providers.numbers import counters
from hab_ray.providers.sdk import SdkAccount, SdkBatches

_BEGIN, _END = b'{"requests":[', b"]}"
_PIECE = 1 << 20
_OPEN = {"in_progress", "canceling"}
_ENDED = "ended"
_UNFINISHED = {"expired": FailureKind.TIMEOUT, "canceled": FailureKind.STOPPED}
# An errored result has an error type but no status; an unknown type counts as a bad request.
_STATUS_OF_RESULTS = 400


class AnthropicBatches(SdkBatches):
    """Batches of messages at one endpoint. The vendor keeps no tag."""

    # The whole create request may have 256 MB, so the lines a little less.
    batch_size = BatchSize(rows=100_000, bytes=255_000_000)
    path, page_rows, after = "/v1/messages/batches", 1000, "after_id"
    owner_headers = "anthropic-organization-id", "anthropic-workspace-id"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(SdkAccount(endpoint, SDK))

    def line(self, custom_id: str, wire: Wire) -> bytes:
        return batch_line({"custom_id": custom_id}, "params", wire.encoded)

    async def submit(self, job: BatchJob) -> str:
        length = len(_BEGIN) + len(job.lines) - 1 + len(_END)
        headers = {"Content-Type": "application/json", "Content-Length": str(length)}
        if version := job.version or self._endpoint.api_version:
            headers["anthropic-version"] = version
        with creating_with_rows(job):
            response = await self._account.send(self.path, _envelope(job.lines), headers)
            return text_field(self._account.read(response), "id")

    @override
    async def poll(self, batch_id: str) -> BatchStatus:
        batch = await self.get(batch_id)
        with reading():
            return _status(batch_id, batch)

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """Use the documented path below the endpoint's URL, not the URL in the vendor's response."""
        if status.lacks_results:
            return
        if not status.results:
            raise ResultsGone(f"batch {status.id}: the vendor keeps results for 29 days and has archived these")
        accepted = {"Accept": "application/binary"}
        async with aclosing(self.lines(status.id, f"{self.path}/{status.id}/results", accepted)) as lines:
            async for line in lines:
                yield line

    async def clean_up(self, status: BatchStatus) -> None:
        with suppress(ResultsGone), item_errors(status.id):
            await self._account.delete(f"{self.path}/{status.id}")

    @override
    def seen(self, batch: JsonObject) -> SeenBatch:
        return SeenBatch(
            id=str(batch["id"]),
            tag=None,
            rows=sum(counters(batch["request_counts"]).values()),
            created=rfc3339(batch.get("created_at")),
        )

    @override
    def body(self, record: JsonObject) -> JsonObject:
        result = record["result"]
        word = str(result["type"])
        if word in _UNFINISHED:
            raise TransientError(_UNFINISHED[word], f"the batch ended before this request's turn ({word})")
        if word == "succeeded":
            message: JsonObject = result["message"]
            return message
        if word != "errored":
            raise malformed(f"a result of the unknown type {word!r}")
        body = masked_error(self._endpoint, result["error"])
        if blocked(body) is None:
            raise classify(_STATUS_OF_RESULTS, body, None)
        return body


async def _envelope(lines: bytes) -> AsyncIterator[bytes]:
    """Yield the create request: the lines joined by commas instead of newlines, without a second copy of them."""
    yield _BEGIN
    end = len(lines) - 1
    for start in range(0, end, _PIECE):
        yield lines[start : min(start + _PIECE, end)].replace(b"\n", b",")
    yield _END


def _status(batch_id: str, batch: JsonObject) -> BatchStatus:
    word = str(batch["processing_status"])
    counts = counters(batch["request_counts"])
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
