"""Gemini's batches: upload a file, create a batch from it, read results from a file or from the batch itself.

Source: the API reference, and published captures of the vendor's responses.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from dataclasses import replace
from urllib.parse import urlencode

from hab_ray.errors import CallError, FailureKind, TransientError
from hab_ray.providers.base import Endpoint, JsonObject, Wire, reading
from hab_ray.providers.batch_http import (
    PAGE,
    cancelling,
    creating_with_rows,
    deleting_if_refused,
    listed,
    masked_error,
    newer_than,
    request_errors,
    text_field,
    token_pages,
)
from hab_ray.providers.batch_lines import batch_line, read_lines, read_record
from hab_ray.providers.batching import BatchJob, BatchSize, BatchStatus, Line, ResultsGone, SeenBatch
from hab_ray.providers.google.errors import classify_status
from hab_ray.providers.google.files import FileAccount
from hab_ray.providers.http import rfc3339
from hab_ray.providers.numbers import counters

_TOKEN = "nextPageToken"
_CREATE = {":generateContent": ":batchGenerateContent", ":batchEmbedContents": ":asyncBatchEmbedContent"}
_EMBEDDING = ":batchEmbedContents"
_OPEN = {"PENDING", "QUEUED", "RUNNING", "CANCELLING", "PAUSED", "UPDATING"}
_SUCCEEDED = {"SUCCEEDED", "PARTIALLY_SUCCEEDED"}
_FAILED = "FAILED"
_ENDED_EARLY = {"CANCELLED", "EXPIRED"}
_ENDED = {_FAILED, *_ENDED_EARLY, *_SUCCEEDED}
_INLINED = ("inlinedResponses", "inlinedEmbedContentResponses")


class GoogleBatches:
    """Batches of generated content or embeddings at one endpoint."""

    # Two gigabytes per file; the vendor states no limit of rows.
    batch_size = BatchSize(rows=100_000, bytes=2_000_000_000)

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._account = FileAccount(endpoint)

    def line(self, custom_id: str, wire: Wire) -> bytes:
        """Online, embeddings are sent as lists; a line holds the only request of a list of one text."""
        if wire.path.endswith(_EMBEDDING):
            (request,) = wire.body["requests"]
            wire = replace(wire, body=request)
        return batch_line({"key": custom_id}, "request", wire.encoded)

    async def owner(self) -> str:
        """Return "": the vendor does not name the key's project."""
        return ""

    async def newest(self) -> str | None:
        with request_errors():
            page = await self._account.ask("GET", "batches?pageSize=1")
        with reading():
            operations = listed(page, "operations", _TOKEN)
            return str(operations[0]["name"]) if operations else None

    async def since(self, newest: str | None) -> list[SeenBatch]:
        """Read the whole list and sort it: the vendor does not promise an order."""
        batches: list[SeenBatch] = []
        with request_errors():
            async for page in token_pages(self._page_at, _TOKEN):
                with reading():
                    batches += [_seen(operation) for operation in listed(page, "operations", _TOKEN)]
        return newer_than(batches, newest)

    async def submit(self, job: BatchJob) -> str:
        """Delete the uploaded file if the batch is clearly refused."""
        file = await self._account.upload(job)
        path, _, verb = job.path.rpartition(":")
        body = {"batch": {"displayName": job.tag, "inputConfig": {"fileName": file}}}
        async with deleting_if_refused(file, self._account.delete):
            with creating_with_rows(job):
                created = await self._account.ask("POST", f"{path}{_CREATE[':' + verb]}", body, job.version)
                return text_field(created, "name")

    async def poll(self, batch_id: str) -> BatchStatus:
        operation = await self._account.batch(batch_id)
        with reading():
            return _status(self._endpoint, batch_id, operation)

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """Read results from a file, or from the batch itself if it holds them inline."""
        for name in status.results:
            if name == status.id:
                operation = await self._account.batch(status.id)
                with reading():
                    records = list(_inlined(_output(operation)))
                for record in records:
                    yield read_record(record, _key, self._body)
                continue
            async with aclosing(read_lines(self._endpoint, self._account.download(name), _key, self._body)) as lines:
                async for line in lines:
                    yield line

    async def cancel(self, batch_id: str) -> None:
        async with cancelling(batch_id, self.poll):
            await self._account.send("POST", f"{batch_id}:cancel")

    async def clean_up(self, status: BatchStatus) -> None:
        with suppress(ResultsGone):
            operation = await self._account.batch(status.id)
            with reading():
                source = (_metadata(operation).get("inputConfig") or {}).get("fileName")
                locations = set(_result_locations(status.id, _output(operation)))
            if locations <= set(status.results):
                for name in (source, *locations - {status.id}, status.id):
                    if name:
                        await self._account.delete(str(name))

    async def close(self) -> None:
        await self._account.close()

    async def _page_at(self, token: str) -> JsonObject:
        query = {"pageSize": str(PAGE)} | ({"pageToken": token} if token else {})
        return await self._account.ask("GET", f"batches?{urlencode(query)}")

    def _body(self, record: JsonObject) -> JsonObject:
        """Return the body that the request would have got online.

        Raises:
            CallError: as online.
        """
        if record.get("error"):
            raise classify_status(masked_error(self._endpoint, record["error"]))
        response: JsonObject = record["response"]
        return _embedded(response) if "embedding" in response else response


def _status(endpoint: Endpoint, batch_id: str, operation: JsonObject) -> BatchStatus:
    word = str(_metadata(operation).get("state") or "")
    state = word.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
    known = state in _OPEN | _ENDED
    results = tuple(_result_locations(batch_id, _output(operation)))
    stats = counters(_metadata(operation).get("batchStats") or {})
    done, error = bool(operation.get("done")), operation.get("error") or _metadata(operation).get("error")
    failed = state == _FAILED or (done and bool(error) and state not in _ENDED)
    ended = state in _ENDED or done or (not known and bool(results))
    counts = tuple(stats.get(name, 0) for name in ("successfulRequestCount", "failedRequestCount"))
    lacks_results = ended and not failed and not results and (state in _SUCCEEDED or counts[0] > 0)
    return BatchStatus(
        id=batch_id,
        word=word,
        ended=ended,
        known=known,
        done=counts[0],
        failed=counts[1],
        problem=_problem(endpoint, error) if failed else None,
        results=results,
        counters=counts if lacks_results else None,
        lacks_results=lacks_results,
        lacks_some=lacks_results and state in _ENDED_EARLY,
    )


def _problem(endpoint: Endpoint, error: object) -> CallError:
    if not error:
        return TransientError(FailureKind.SERVER, "the batch failed and the vendor does not say why")
    return classify_status(masked_error(endpoint, error))


def _metadata(operation: JsonObject) -> JsonObject:
    return operation.get("metadata") or {}


def _output(operation: JsonObject) -> JsonObject:
    return _metadata(operation).get("output") or operation.get("response") or {}


def _result_locations(batch_id: str, output: JsonObject) -> Iterator[str]:
    """Yield the name of the file that holds the results, or the batch's id if it holds them inline."""
    if output.get("responsesFile"):
        yield str(output["responsesFile"])
    elif next(_inlined(output), None) is not None:
        yield batch_id


def _inlined(output: JsonObject) -> Iterator[JsonObject]:
    for name in _INLINED:
        yield from (output.get(name) or {}).get("inlinedResponses") or []


def _key(record: JsonObject) -> object:
    """Return the key of a result: at its top level in a file, within `metadata` if inline."""
    return record.get("key") or (record.get("metadata") or {}).get("key")


def _embedded(response: JsonObject) -> JsonObject:
    """Return an embedding in the shape of the list that the vendor sends online."""
    usage = response.get("usageMetadata") or {"promptTokenCount": _int64(response.get("tokenCount"))}
    return {"embeddings": [response["embedding"]], "usageMetadata": usage}


def _int64(count: object) -> object:
    """Convert a 64-bit number, which protobuf's JSON writes as text."""
    return int(count) if isinstance(count, str) and count.isdecimal() else count


def _seen(operation: JsonObject) -> SeenBatch:
    metadata = _metadata(operation)
    return SeenBatch(
        id=str(operation["name"]),
        tag=metadata.get("displayName", ""),
        rows=counters(metadata.get("batchStats") or {}).get("requestCount") or None,
        created=rfc3339(metadata.get("createTime")),
    )
