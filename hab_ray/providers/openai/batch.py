"""OpenAI's batches, also of many compatible accounts: upload a file, create a batch from it, download result files.

Source: the API reference and the installed SDK (openai 3.54).
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress

from typing_extensions import override

from hab_ray.catalog.addresses import is_at
from hab_ray.errors import CallError, FailureKind, TransientError
from hab_ray.providers.base import Endpoint, JsonObject, Wire, malformed, reading
from hab_ray.providers.batch_http import PAGE, as_batch_refusal, masked_error
from hab_ray.providers.batching import BatchJob, BatchSize, BatchStatus, Line, QueueFull, ResultsGone, SeenBatch
from hab_ray.providers.http import unix_time
from hab_ray.providers.numbers import counters
from hab_ray.providers.openai.errors import classify, error_status, is_answer
from hab_ray.providers.openai.files import FileAccount, request_line, target
from hab_ray.providers.sdk import SdkBatches

_TAG = "hab_tag"
_HOST = "api.openai.com"
_OPEN = {"validating", "in_progress", "finalizing", "cancelling"}
_COMPLETED = "completed"
_WITH_RESULTS = {_COMPLETED, "expired", "cancelled"}
_ENDED = {"failed", *_WITH_RESULTS}
_QUEUE_FULL = "token_limit_exceeded"
_QUEUE_LIMIT = re.compile(r"\blimit: (\d[\d,]{0,17}) enqueued tokens", re.I)
_UNFINISHED = {
    "batch_expired": FailureKind.TIMEOUT,
    "batch_cancelled": FailureKind.STOPPED,
    "request_timeout": FailureKind.TIMEOUT,
}


class OpenAIBatches(SdkBatches):
    """Batches of chat completions or embeddings at one endpoint."""

    # An embeddings batch may hold 50,000 inputs too: one text per line.
    batch_size = BatchSize(rows=50_000, bytes=200_000_000)
    path, page_rows, after = "/batches", PAGE, "after"
    owner_headers = "openai-organization", "openai-project"

    def __init__(self, endpoint: Endpoint) -> None:
        self._files = FileAccount(endpoint)
        self._tag_of_none = "" if is_at(endpoint.url, _HOST) else None
        super().__init__(self._files)

    def line(self, custom_id: str, wire: Wire) -> bytes:
        return request_line(custom_id, wire)

    async def submit(self, job: BatchJob) -> str:
        body = {"endpoint": target(job.path), "completion_window": "24h", "metadata": {_TAG: job.tag}}
        return await self._files.create(job, {"purpose": "batch"}, self.path, body, "id")

    @override
    async def poll(self, batch_id: str) -> BatchStatus:
        batch = await self.get(batch_id)
        with reading():
            return self._status(batch_id, batch)

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """Read both result files; rejected requests are in the second."""
        for file_id in status.results:
            async with aclosing(self.lines(status.id, f"/files/{file_id}/content")) as lines:
                async for line in lines:
                    yield line

    async def clean_up(self, status: BatchStatus) -> None:
        """Delete the files; the vendor keeps the batch itself."""
        with suppress(ResultsGone):
            batch = await self.get(status.id)
            if set(_files(batch)) <= set(status.results):
                for file_id in (batch.get("input_file_id"), *_files(batch)):
                    if file_id:
                        await self._files.delete_file(str(file_id))

    @override
    def seen(self, batch: JsonObject) -> SeenBatch:
        """Read a listed batch. OpenAI keeps tags; other servers that leave `metadata` out or empty may keep none."""
        kept = batch.get("metadata")
        return SeenBatch(
            id=str(batch["id"]),
            tag=kept.get(_TAG, "") if kept else self._tag_of_none,
            rows=counters(batch.get("request_counts") or {}).get("total") or None,
            created=unix_time(batch.get("created_at")),
        )

    def _status(self, batch_id: str, batch: JsonObject) -> BatchStatus:
        word = str(batch["status"])
        counts = counters(batch.get("request_counts") or {})
        done, failed = counts.get("completed", 0), counts.get("failed", 0)
        results = _files(batch) if word in _ENDED else ()
        lacks_results = word in _WITH_RESULTS and (
            (done > 0 and not batch.get("output_file_id")) or (word == _COMPLETED and not results)
        )
        return BatchStatus(
            id=batch_id,
            word=word,
            ended=word in _ENDED,
            known=word in _OPEN | _ENDED,
            done=done,
            failed=failed,
            problem=_problem(batch) if word == "failed" else None,
            results=results,
            counters=(done, failed) if lacks_results else None,
            lacks_results=lacks_results,
        )

    @override
    def body(self, record: JsonObject) -> JsonObject:
        response, error = record.get("response"), record.get("error")
        if not (response or error):
            raise malformed("a result line has neither a response nor an error")
        if not response:
            raise _without_response(masked_error(self._endpoint, {"error": error}))
        status, body = int(response["status_code"]), response["body"]
        if status < 400:
            if not isinstance(body, Mapping):
                raise malformed("the body of a result line is not a JSON object")
            stated_status = error_status(body)
            if stated_status is None:
                return body
            status = stated_status
        body = masked_error(self._endpoint, body)
        if not is_answer(body):
            raise as_batch_refusal(classify(status, body, None))
        return body


def _files(batch: JsonObject) -> tuple[str, ...]:
    """Return the ids of the files of answered and of rejected requests, if the vendor shows them."""
    return tuple(str(batch[name]) for name in ("output_file_id", "error_file_id") if batch.get(name))


def _problem(batch: JsonObject) -> CallError:
    """Return why the vendor refused a batch when it validated its file."""
    problems = _listed(batch.get("errors"))
    if not problems:
        return TransientError(FailureKind.SERVER, "the batch failed and the vendor does not say why")
    full = next((problem for problem in problems if problem.get("code") == _QUEUE_FULL), None)
    if full is not None:
        message = str(full.get("message"))
        stated = _QUEUE_LIMIT.search(message)
        return QueueFull(f"{_QUEUE_FULL}: {message}", int(stated[1].replace(",", "")) if stated else None)
    first = problems[0]
    line = "" if first.get("line") is None else f" (line {first['line']})"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = f"{first.get('message')}{line}{more}"
    return as_batch_refusal(classify(400, {"error": {**first, "message": message}}, None))


def _listed(errors: object) -> list[Mapping[str, object]]:
    """Return the errors of a batch, which OpenAI lists under `data`; other servers may send one, or texts."""
    found = errors.get("data") if isinstance(errors, Mapping) else errors
    listed = found if isinstance(found, list) else [found] if found else []
    return [problem if isinstance(problem, Mapping) else {"message": problem} for problem in listed]


def _without_response(body: JsonObject) -> CallError:
    """Return the error of a line without an HTTP response; the request was not billed and may be sent again."""
    error = body.get("error")
    problem = error if isinstance(error, Mapping) else {}
    code = str(problem.get("code"))
    if code in _UNFINISHED:
        return TransientError(_UNFINISHED[code], f"{code}: {problem.get('message')}")
    return classify(500, body, None)
