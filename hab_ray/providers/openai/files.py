"""Requests for files, batches and the list of models of an account with OpenAI's protocol."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import BytesIO
from typing import Any

import httpx2

from hab_ray.providers.base import Endpoint, JsonObject, Wire
from hab_ray.providers.batch_http import (
    MAX_UPLOAD_S,
    creating_from_file,
    deleting_if_refused,
    item_errors,
    request_errors,
    text_field,
)
from hab_ray.providers.batch_lines import batch_line
from hab_ray.providers.batching import BatchJob, ResultsGone
from hab_ray.providers.http import upload_limits
from hab_ray.providers.model_list import all_names
from hab_ray.providers.openai.chat import SDK
from hab_ray.providers.sdk import SdkAccount


class FileAccount(SdkAccount):
    """An account with files."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, SDK)

    async def batch(self, batch_id: str) -> JsonObject:
        """Return a batch as the vendor shows it; raise ResultsGone if there is none."""
        with item_errors(batch_id):
            return self.read(await self.get(f"/batches/{batch_id}"))

    async def create(self, job: BatchJob, fields: Mapping[str, Any], path: str, body: JsonObject, id_field: str) -> str:
        """Upload a batch's lines with further form fields, create a batch from the file, and return the batch's id.

        The file is deleted if the batch is clearly refused.
        """
        file_id = await self.upload(job, fields)
        async with deleting_if_refused(file_id, self.delete_file):
            with creating_from_file(job):
                created = self.read(await self.post(path, Wire(path, {"input_file_id": file_id, **body}).encoded))
                return text_field(created, id_field)

    async def upload(self, job: BatchJob, fields: Mapping[str, Any]) -> str:
        """Upload a batch's lines as a file, with further form fields, and return the file's id.

        Raises:
            CallError: the file was not stored.
        """
        request = self._client.post(
            "/files",
            body=fields,
            files=[("file", (f"{job.tag}.jsonl", BytesIO(job.lines), "application/jsonl"))],
            options={"headers": {"Content-Type": "multipart/form-data"}, "timeout": upload_limits(self.endpoint)},
            cast_to=httpx2.Response,
        )
        with request_errors():
            return text_field(self.read(await self.ask(request, MAX_UPLOAD_S)), "id")

    async def delete_file(self, file_id: str) -> None:
        """Delete a file if it exists; raise CallError if the request failed."""
        with suppress(ResultsGone), item_errors(file_id):
            await self.delete(f"/files/{file_id}")


def request_line(custom_id: str, wire: Wire) -> bytes:
    """Return a request as a line of a batch's file, without the newline."""
    return batch_line({"custom_id": custom_id, "method": "POST", "url": target(wire.path)}, "body", wire.encoded)


def target(path: str) -> str:
    """Return a wire's path as batches name it: always below /v1, even if the endpoint's base path differs."""
    return f"/v1{path}"


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """Return the models of the key, from GET /models, which is a single page."""
    account = FileAccount(endpoint)

    async def page_after(_: str | None) -> tuple[Iterable[object], object]:
        body = account.read(await account.get("/models"))
        return [model["id"] for model in body["data"]], None

    return await all_names(page_after, account.close)
