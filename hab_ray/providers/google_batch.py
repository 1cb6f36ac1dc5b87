"""Gemini's batches: a file goes up, a batch is made of it, a file of results comes back, or the results themselves.

Source: the API reference and the installed SDK (google-genai 3.4). Requests go through the SDK's API client, not its
typed methods: those drop what a failed batch says of its failure and refuse answers with a field they do not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from io import BytesIO
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
from google.genai.errors import APIError, UnknownApiResponseError
from google.genai.types import HttpOptions

from hab_ray.errors import CallError, FailureKind, TransientError
from hab_ray.providers.base import Endpoint, JsonObject, Wire, malformed
from hab_ray.providers.batch_http import (
    PAGE,
    Refused,
    asking,
    asking_for,
    creating_with_rows,
    ending,
    made_of,
    made_since,
    reading,
    scrubbed,
    text_field,
    token_pages,
)
from hab_ray.providers.batch_lines import compact, read_lines, read_record
from hab_ray.providers.batching import BatchJob, BatchSize, BatchStatus, Line, ResultsGone, SeenBatch
from hab_ray.providers.google import api_version, connection, refusal
from hab_ray.providers.google_status import meaning
from hab_ray.providers.http import broken, json_object, rfc3339

_LINES_TYPE = "application/jsonl"
_CREATE = {":generateContent": ":batchGenerateContent", ":batchEmbedContents": ":asyncBatchEmbedContent"}
_EMBEDDING = ":batchEmbedContents"
_OPEN = {"PENDING", "QUEUED", "RUNNING", "CANCELLING", "PAUSED", "UPDATING"}
_ENDED = {"SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"}
_FAILED = "FAILED"
_INLINED = ("inlinedResponses", "inlinedEmbedContentResponses")
_NOT_OURS_TO_DELETE = {400, 403, 404}
_FORBIDDEN, _MAY_BE_GONE = 403, "may not exist"


class GoogleBatches:
    """Batches of generated content or embeddings at one endpoint. See BatchApi."""

    # Two gigabytes a file; of rows the vendor names no limit.
    batch_size = BatchSize(rows=100_000, bytes=2_000_000_000)

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = connection(endpoint)

    def line(self, custom_id: str, wire: Wire) -> bytes:
        """See BatchApi. Online, embeddings go out as lists; a line takes the one request of a list of one text."""
        request = wire.body
        if wire.path.endswith(_EMBEDDING):
            (request,) = wire.body["requests"]
        return compact({"key": custom_id, "request": request})

    async def owner(self) -> str:
        """See BatchApi. The vendor tells nothing of the key's project."""
        return ""

    async def newest(self) -> str | None:
        """See BatchApi."""
        with asking():
            page = await self._json("get", f"{api_version(self._endpoint)}/batches?pageSize=1")
        with reading():
            operations = page.get("operations") or []
            return str(operations[0]["name"]) if operations else None

    async def since(self, newest: str | None) -> list[SeenBatch]:
        """See BatchApi. The vendor does not say that its list is in order: all is read, and sorted here."""
        with asking():
            found = [batch async for batch in self._listed()]
        return made_since(found, newest)

    async def submit(self, job: BatchJob) -> str:
        """See BatchApi. The file of a batch that was clearly refused is deleted again."""
        file = await self._upload(job)
        path, _, verb = job.path.rpartition(":")
        body = {"batch": {"displayName": job.tag, "inputConfig": {"fileName": file}}}
        async with made_of(file, self._delete):
            with creating_with_rows(job):
                created = await self._json(
                    "post", f"{api_version(self._endpoint, job.version)}{path}{_CREATE[':' + verb]}", body
                )
                return text_field(created, "name")

    async def poll(self, batch_id: str) -> BatchStatus:
        """See BatchApi."""
        operation = await self._operation(batch_id)
        with reading():
            return self._status(batch_id, operation)

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """See BatchApi. Results that are not in a file are in the batch itself."""
        for name in status.results:
            if name == status.id:
                operation = await self._operation(status.id)
                with reading():
                    records = list(_inlined(_output(operation)))
                for record in records:
                    yield read_record(record, _key, self._body)
                continue
            async with aclosing(read_lines(self._endpoint, self._chunks(name), _key, self._body)) as lines:
                async for line in lines:
                    yield line

    async def cancel(self, batch_id: str) -> None:
        """See BatchApi."""
        async with ending(batch_id, self.poll):
            await self._ask("post", f"{api_version(self._endpoint)}/{batch_id}:cancel", {})

    async def clean_up(self, batch_id: str) -> None:
        """See BatchApi."""
        with suppress(ResultsGone):
            operation = await self._operation(batch_id)
            with reading():
                source = (_metadata(operation).get("inputConfig") or {}).get("fileName")
                names = (source, _output(operation).get("responsesFile"), batch_id)
            for name in names:
                if name:
                    await self._delete(str(name))

    async def close(self) -> None:
        """See BatchApi."""
        await self._client.aio.aclose()
        self._client.close()

    async def _upload(self, job: BatchJob) -> str:
        """The vendor's two steps: tell the size, then send the lines to the URL that comes back, 8 MB at a time."""
        told = {
            "Content-Type": "application/json",
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(len(job.lines)),
            "X-Goog-Upload-Header-Content-Type": _LINES_TYPE,
        }
        api = self._client._api_client
        body: dict[str, object] = {"file": {"displayName": job.tag, "mimeType": _LINES_TYPE}}
        with asking(), self._exchange():
            begun = await api.async_request(
                "post", f"upload/{api_version(self._endpoint, job.version)}/files", body, HttpOptions(headers=told)
            )
            headers = {name.lower(): value for name, value in (begun.headers or {}).items()}
            url = text_field(headers, "x-goog-upload-url")
            options = HttpOptions(headers={**self._upload_headers(url), "Content-Type": _LINES_TYPE})
            done = await api.async_upload_file(BytesIO(job.lines), url, len(job.lines), http_options=options)
        with reading():
            return text_field(done.json["file"], "name")

    def _upload_headers(self, url: str) -> Mapping[str, str]:
        """The account's own headers where the upload goes to its own host; the vendor may name any other."""
        here, there = urlsplit(self._endpoint.url), urlsplit(url)
        same = (here.scheme, here.netloc) == (there.scheme, there.netloc)
        return self._endpoint.headers if same else {}

    async def _delete(self, name: str) -> None:
        try:
            await self._ask("delete", f"{api_version(self._endpoint)}/{name}", {})
        except Refused as refused:
            if refused.status not in _NOT_OURS_TO_DELETE:
                raise refused.error from None

    async def _listed(self) -> AsyncIterator[SeenBatch]:
        async def page_at(token: str) -> JsonObject:
            query = {"pageSize": str(PAGE)} | ({"pageToken": token} if token else {})
            return await self._json("get", f"{api_version(self._endpoint)}/batches?{urlencode(query)}")

        async for page in token_pages(page_at, "nextPageToken"):
            with reading():
                batches = [_seen(operation) for operation in page.get("operations") or []]
            for batch in batches:
                yield batch

    async def _operation(self, batch_id: str) -> JsonObject:
        with asking_for(batch_id):
            return await self._json("get", f"{api_version(self._endpoint)}/{batch_id}")

    async def _json(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        return json_object(self._endpoint.without_key(await self._ask(method, path, dict(body or {}))))

    async def _ask(self, method: str, path: str, body: dict[str, object]) -> str:
        with self._exchange():
            response = await self._client._api_client.async_request(method, path, body)
        return response.body or ""

    async def _chunks(self, file: str) -> AsyncGenerator[bytes, None]:
        """A file of results as it arrives: each read is bounded, not the whole."""
        api = self._client._api_client
        request = api._build_request("get", f"{api_version(self._endpoint)}/{file}:download?alt=media", {})
        request.timeout = None
        with asking_for(file), _file_may_be_gone(file), self._exchange():
            async with asyncio.timeout(self._endpoint.timeout_s):
                response: Any = (await api._async_request(request, stream=True)).response_stream
        try:
            while chunk := await self._next_chunk(response):
                yield chunk
        finally:
            response.close()

    async def _next_chunk(self, response: aiohttp.ClientResponse) -> bytes:
        with self._exchange():
            async with asyncio.timeout(self._endpoint.timeout_s):
                return await response.content.readany()

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        try:
            yield
        except APIError as error:
            raise Refused(error.code, refusal(self._endpoint, error)) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise broken(error) from None
        except (UnknownApiResponseError, ValueError) as error:
            raise malformed(type(error).__name__) from None

    def _status(self, batch_id: str, operation: JsonObject) -> BatchStatus:
        word = str(_metadata(operation).get("state") or "")
        state = word.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        known = state in _OPEN | _ENDED
        results = tuple(_places(batch_id, _output(operation)))
        stats = _metadata(operation).get("batchStats") or {}
        done, problem = bool(operation.get("done")), operation.get("error") or _metadata(operation).get("error")
        failed = state == _FAILED or (done and bool(problem) and state not in _ENDED)
        return BatchStatus(
            id=batch_id,
            word=word,
            ended=state in _ENDED or done or (not known and bool(results)),
            known=known,
            done=int(stats.get("successfulRequestCount") or 0),
            failed=int(stats.get("failedRequestCount") or 0),
            problem=self._problem(problem) if failed else None,
            results=results,
        )

    def _problem(self, error: object) -> CallError:
        if not error:
            return TransientError(FailureKind.SERVER, "the batch failed and the vendor does not say why")
        return meaning(scrubbed(self._endpoint, error))

    def _body(self, record: JsonObject) -> JsonObject:
        """The body that the request would have brought online.

        Raises:
            CallError: what it would have raised online.
        """
        if record.get("error"):
            raise meaning(scrubbed(self._endpoint, record["error"]))
        response: JsonObject = record["response"]
        return _embedded(response) if "embedding" in response else response


@contextmanager
def _file_may_be_gone(file: str) -> Iterator[None]:
    """For a file that is gone the vendor says 403: no permission, "or it may not exist"."""
    try:
        yield
    except Refused as refused:
        if refused.status == _FORBIDDEN and _MAY_BE_GONE in str(refused):
            raise ResultsGone(f"{file}: the vendor no longer has it ({refused})") from None
        raise


def _metadata(operation: JsonObject) -> JsonObject:
    return operation.get("metadata") or {}


def _output(operation: JsonObject) -> JsonObject:
    return _metadata(operation).get("output") or operation.get("response") or {}


def _places(batch_id: str, output: JsonObject) -> Iterator[str]:
    """Where the results are: a file, or the batch itself. The names of both say which they are."""
    if output.get("responsesFile"):
        yield str(output["responsesFile"])
    elif any(True for _ in _inlined(output)):
        yield batch_id


def _inlined(output: JsonObject) -> Iterator[JsonObject]:
    for name in _INLINED:
        yield from (output.get(name) or {}).get("inlinedResponses") or []


def _key(record: JsonObject) -> object:
    """Files name a result at its top, the batch itself within `metadata`."""
    return record.get("key") or (record.get("metadata") or {}).get("key")


def _embedded(response: JsonObject) -> JsonObject:
    """One embedding, in the shape of the list that the vendor sends online."""
    usage = response.get("usageMetadata") or {"promptTokenCount": _int64(response.get("tokenCount"))}
    return {"embeddings": [response["embedding"]], "usageMetadata": usage}


def _int64(count: object) -> object:
    """A 64-bit number, which protobuf's JSON writes as a text."""
    return int(count) if isinstance(count, str) and count.isdecimal() else count


def _seen(operation: JsonObject) -> SeenBatch:
    metadata = _metadata(operation)
    return SeenBatch(
        id=str(operation["name"]),
        tag=metadata.get("displayName", ""),
        rows=int((metadata.get("batchStats") or {}).get("requestCount") or 0) or None,
        created=rfc3339(metadata.get("createTime")),
    )
