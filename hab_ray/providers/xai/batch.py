"""xAI's batches: a file is uploaded as at OpenAI, counters show the state, and the results come in pages.

Source: docs.x.ai (batch API) and reports of other clients. The upload takes no purpose. All counters are 0 until the
vendor has read the file; only `cancel_by_xai_message` says that it was refused. An error is a bare string instead of a
request's response. Counters of a cancelled batch were seen to change from cancelled to succeeded some 20 s later, with
all results available. Requests in the file have the same body as online.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from hab_ray.errors import CallError, FailureKind, RateLimited, RowError, TransientError
from hab_ray.providers.base import Endpoint, JsonObject, Wire, malformed, reading
from hab_ray.providers.batch_http import (
    as_batch_refusal,
    cancelling,
    item_errors,
    listed,
    masked_error,
    newer_than,
    request_errors,
    token_pages,
)
from hab_ray.providers.batch_lines import read_record
from hab_ray.providers.batching import BatchJob, BatchRefused, BatchSize, BatchStatus, Line, ResultsGone, SeenBatch
from hab_ray.providers.error_rules import GRPC_CODES
from hab_ray.providers.http import rfc3339
from hab_ray.providers.numbers import counters
from hab_ray.providers.openai.errors import classify, is_answer
from hab_ray.providers.openai.files import FileAccount, request_line

_LISTED, _RESULTS = 100, 1000
_TOKEN = "pagination_token"
_CANCELLED, _REFUSED, _UNKNOWN = 1, 400, 500
_BATCH_ENDED = re.compile(r"^(the )?batch (was )?(?P<how>cancell?ed|expired)", re.I)
_RATE_LIMIT = re.compile(r"rate limit|too many requests", re.I)
_BAD_REQUEST = re.compile(r"\b(must( not)? be|invalid|malformed|not supported|unsupported|failed to download)\b", re.I)
_NO_COUNTERS = "without counters"


class XaiBatches:
    """Batches of chat completions at one endpoint."""

    batch_size = BatchSize(rows=50_000, bytes=200_000_000)

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._account = FileAccount(endpoint)

    def line(self, custom_id: str, wire: Wire) -> bytes:
        return request_line(custom_id, wire)

    async def owner(self) -> str:
        """Return "": the vendor does not name the key's team."""
        return ""

    async def newest(self) -> str | None:
        batches = await self.since(None)
        return batches[0].id if batches else None

    async def since(self, newest: str | None) -> list[SeenBatch]:
        """Read the whole list and sort it: the vendor does not promise an order."""
        batches: list[SeenBatch] = []
        with request_errors():
            async for page in self._pages("/batches", _LISTED):
                with reading():
                    batches += [_seen(batch) for batch in listed(page, "batches", _TOKEN)]
        return newer_than(batches, newest)

    async def submit(self, job: BatchJob) -> str:
        return await self._account.create(job, {}, "/batches", {"name": job.tag}, "batch_id")

    async def poll(self, batch_id: str) -> BatchStatus:
        batch = await self._account.batch(batch_id)
        with reading():
            return _status(batch_id, batch)

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """Keep one page of results in memory at a time."""
        for batch_id in status.results:
            with item_errors(batch_id):
                async for page in self._pages(f"/batches/{batch_id}/results", _RESULTS):
                    with reading():
                        records = list(page["results"])
                    for record in records:
                        yield read_record(record, _request_id, self._body)

    async def cancel(self, batch_id: str) -> None:
        async with cancelling(batch_id, self.poll):
            await self._account.post(f"/batches/{batch_id}:cancel")

    async def clean_up(self, status: BatchStatus) -> None:
        """Delete the uploaded file; the vendor keeps the batch itself."""
        with suppress(ResultsGone):
            batch = await self._account.batch(status.id)
            if batch.get("input_file_id"):
                await self._account.delete_file(str(batch["input_file_id"]))

    async def close(self) -> None:
        await self._account.close()

    def _pages(self, path: str, size: int) -> AsyncGenerator[JsonObject, None]:
        async def page_at(token: str) -> JsonObject:
            query = {"limit": size} | ({_TOKEN: token} if token else {})
            return self._account.read(await self._account.get(path, query))

        return token_pages(page_at, _TOKEN)

    def _body(self, record: JsonObject) -> JsonObject:
        """Return the body that the request would have got online.

        Raises:
            CallError: as online, or because the batch ended before the request's turn.
        """
        result = record.get("batch_result") or {}
        response = result.get("response")
        if not response:
            stated = _stated_error(record, result)
            if not stated:
                raise malformed("a result line has neither a response nor an error")
            error = masked_error(self._endpoint, {"error": stated})
            if is_answer(error):
                return error
            raise as_batch_refusal(_failure(error))
        body: JsonObject = response["chat_get_completion"]
        return body


def _stated_error(record: JsonObject, result: JsonObject) -> Any:
    """Return the error of a request without a response: a status object or text, in one of three fields, if any."""
    return result.get("error") or record.get("error") or record.get("error_message")


def _failure(body: JsonObject) -> CallError:
    """Classify the error of a request: a status object with a gRPC code, or only text."""
    error = body["error"]
    if isinstance(error, str):
        return _text_failure(error)
    code = error.get("code") if isinstance(error, Mapping) else None
    if code == _CANCELLED:
        return TransientError(FailureKind.STOPPED, f"the batch ended before this request's turn: {error}")
    status = GRPC_CODES[code][0] if isinstance(code, int) and code in GRPC_CODES else _UNKNOWN
    return classify(status, body, None)


def _text_failure(message: str) -> CallError:
    """Classify an error given as bare text.

    If the text blames the request, the model or the account, the error is the same as online. Otherwise it is the
    vendor's own failure, so that the request may be sent again.
    """
    if ended := _BATCH_ENDED.search(message):
        kind = FailureKind.TIMEOUT if ended["how"].lower() == "expired" else FailureKind.STOPPED
        return TransientError(kind, f"the batch ended before this request's turn: {message}")
    if _RATE_LIMIT.search(message):
        return RateLimited(message, None)
    refused = classify(_REFUSED, {"error": {"message": message}}, None)
    if isinstance(refused, RowError) and refused.kind is FailureKind.BAD_REQUEST and not _BAD_REQUEST.search(message):
        return classify(_UNKNOWN, {"error": {"message": message}}, None)
    return refused


def _request_id(record: JsonObject) -> object:
    return record.get("batch_request_id")


def _seen(batch: JsonObject) -> SeenBatch:
    return SeenBatch(
        id=str(batch["batch_id"]),
        tag=str(batch.get("name") or ""),
        rows=counters(batch.get("state") or {}).get("num_requests") or None,
        created=rfc3339(batch.get("create_time")),
    )


def _status(batch_id: str, batch: JsonObject) -> BatchStatus:
    counts, message = counters(batch["state"] or {}), batch.get("cancel_by_xai_message")
    rows = counts.get("num_requests", 0)
    is_cancelled = bool(batch.get("cancel_time"))
    word, ended = _state(counts, is_refused=bool(message), is_cancelled=is_cancelled)
    return BatchStatus(
        id=batch_id,
        word=word,
        ended=ended,
        known=word != _NO_COUNTERS,
        done=counts.get("num_success", 0),
        failed=counts.get("num_error", 0) + counts.get("num_cancelled", 0),
        problem=_problem(counts, message) if ended and (message or not is_cancelled) else None,
        results=(batch_id,) if ended and rows else (),
        counters=tuple(counts.values()) if ended else None,
    )


def _problem(counts: Mapping[str, int], message: object) -> CallError | None:
    """Return why a batch that we did not cancel has no results, or None if it has some."""
    rows = counts.get("num_requests", 0)
    if message and not counts.get("num_success"):
        return as_batch_refusal(classify(_REFUSED, {"error": {"message": message}}, None))
    if rows and counts.get("num_cancelled") == rows:
        return BatchRefused(f"the vendor cancelled all {rows} requests of the batch and gives no reason")
    return None


def _state(counts: Mapping[str, int], *, is_refused: bool, is_cancelled: bool) -> tuple[str, bool]:
    """Return our name of the state, since the vendor gives none, and whether it is final."""
    rows, pending = counts.get("num_requests", 0), counts.get("num_pending", 0)
    if is_refused:
        return "rejected", True
    if not counts:
        return _NO_COUNTERS, False
    if is_cancelled:
        return ("cancelling", False) if pending else ("cancelled", True)
    if not rows:
        return "validating", False
    return ("in_progress", False) if pending else ("completed", True)
