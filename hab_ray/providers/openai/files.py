"""Requests for files and batches at an account that speaks OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from typing import Any

import httpx2
from typing_extensions import override

from hab_ray.providers.base import Endpoint, JsonObject, Wire
from hab_ray.providers.batch_http import MAX_UPLOAD_S, asking, asking_for, text_field
from hab_ray.providers.batch_lines import compact
from hab_ray.providers.batching import BatchJob, ResultsGone
from hab_ray.providers.openai.chat import SDK
from hab_ray.providers.openai.errors import error_status
from hab_ray.providers.sdk import SdkAccount


class FileAccount(SdkAccount):
    """An account with files."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, SDK)

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
            return text_field(self.read(await self.ask(request, MAX_UPLOAD_S)), "id")

    async def delete_file(self, file_id: str) -> None:
        """Delete a file; one that no longer exists is no error.

        Raises:
            CallError: the vendor could not be asked.
        """
        with suppress(ResultsGone), asking_for(file_id):
            await self.delete(f"/files/{file_id}")

    @override
    def read(self, response: httpx2.Response) -> JsonObject:
        """The JSON object of an answer. Some accounts send an error under HTTP 200, which is a refusal too."""
        body = super().read(response)
        status = error_status(body)
        if status is not None and "id" not in body:
            raise self.refusal(status, body, response.headers)
        return body


def request_line(custom_id: str, wire: Wire) -> bytes:
    """A request as a line of a batch's file, without the newline."""
    return compact({"custom_id": custom_id, "method": "POST", "url": target(wire.path), "body": wire.body})


def target(path: str) -> str:
    """A wire's path as batches name it: always below /v1, also where the endpoint's base path is another."""
    return f"/v1{path}"
