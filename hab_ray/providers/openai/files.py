"""Requests for files and batches at an account that speaks OpenAI's protocol.

They go through the SDK's generic verbs, since its types would refuse or drop what compatible accounts add.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from io import BytesIO
from typing import Any

import httpx2
from openai import APIConnectionError, APIStatusError

from hab_ray.providers.base import Endpoint, JsonObject, Wire
from hab_ray.providers.batch_http import MAX_UPLOAD_S, SdkErrors, answered, asking, asking_for, json_of, text_field
from hab_ray.providers.batch_lines import compact
from hab_ray.providers.batching import BatchJob, ResultsGone
from hab_ray.providers.http import StatusError
from hab_ray.providers.openai.chat import connection
from hab_ray.providers.openai.errors import classify, error_status

Query = Mapping[str, object]
_ERRORS = SdkErrors(APIStatusError, APIConnectionError)


class FileAccount:
    """An account with files. Every request raises StatusError for a refusal, TransientError where nothing came back."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = connection(endpoint)

    async def get(self, path: str, query: Query | None = None) -> httpx2.Response:
        """A GET with its answer read."""
        return await self._ask(self._client.get(path, cast_to=httpx2.Response, options={"params": query or {}}))

    async def stream(self, path: str) -> httpx2.Response:
        """A GET whose body is still to be read."""
        return await self._ask(self._client.get(path, cast_to=httpx2.Response, stream=True))

    async def post(self, path: str, body: JsonObject | None = None) -> httpx2.Response:
        """A POST of JSON, sent once."""
        return await self._ask(self._client.post(path, body=body, cast_to=httpx2.Response))

    async def batch(self, batch_id: str) -> JsonObject:
        """A batch as the vendor shows it."""
        return self.read(await self.get(f"/batches/{batch_id}"))

    async def upload(self, job: BatchJob, fields: Mapping[str, Any]) -> str:
        """Store a batch's lines as a file, with these form fields; the vendor's id of it.

        Raises:
            CallError: there is no file.
        """
        request = self._client.post(
            "/files",
            body=fields,
            files=[("file", (f"{job.tag}.jsonl", BytesIO(job.lines), "application/jsonl"))],
            options={"headers": {"Content-Type": "multipart/form-data"}},
            cast_to=httpx2.Response,
        )
        with asking():
            return text_field(self.read(await self._ask(request, MAX_UPLOAD_S)), "id")

    async def delete_file(self, file_id: str) -> None:
        """Delete a file; one that no longer exists is no error.

        Raises:
            CallError: the vendor could not be asked.
        """
        with suppress(ResultsGone), asking_for(file_id):
            await self._ask(self._client.delete(f"/files/{file_id}", cast_to=httpx2.Response))

    def read(self, response: httpx2.Response) -> JsonObject:
        """The JSON object of an answer. Some accounts send an error under HTTP 200, which is a refusal too."""
        body = json_of(self._endpoint, response)
        status = error_status(body)
        if status is not None and "id" not in body:
            raise StatusError(status, classify(status, body, None))
        return body

    async def close(self) -> None:
        """Close connections."""
        await self._client.close()

    async def _ask(self, request: Awaitable[httpx2.Response], limit_s: float | None = None) -> httpx2.Response:
        return await answered(request, self._endpoint, _ERRORS, classify, limit_s)


def request_line(custom_id: str, wire: Wire) -> bytes:
    """A request as a line of a batch's file, without the newline."""
    return compact({"custom_id": custom_id, "method": "POST", "url": target(wire.path), "body": wire.body})


def target(path: str) -> str:
    """A wire's path as batches name it: always below /v1, also where the endpoint's base path is another."""
    return f"/v1{path}"
