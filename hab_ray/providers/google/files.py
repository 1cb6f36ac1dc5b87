"""Requests for files and batches at a Gemini account.

Source: the API reference, and the captures of the vendor's answers that others have published.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager

from hab_ray.providers.base import Endpoint, JsonObject
from hab_ray.providers.batch_http import asking, asking_for, reading, text_field
from hab_ray.providers.batching import BatchJob, ResultsGone
from hab_ray.providers.google.connection import Connection
from hab_ray.providers.http import StatusError, json_object

_LINES_TYPE = "application/jsonl"
_NOT_OURS_TO_DELETE = {400, 403, 404}
_FORBIDDEN, _MAY_BE_GONE = 403, "may not exist"


class FileAccount:
    """An account with files and batches, by their names (`files/...`, `batches/...`)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection = Connection(endpoint)

    async def json(
        self, method: str, path: str, body: JsonObject | None = None, version: str | None = None
    ) -> JsonObject:
        """The JSON object that comes back for a request.

        Raises:
            StatusError: the answer has an error status.
            TransientError: no whole JSON object came back.
        """
        return self._read(await self._connection.send(method, self._connection.versioned(path, version), body))

    async def batch(self, batch_id: str) -> JsonObject:
        """A batch as the vendor shows it.

        Raises:
            ResultsGone: there is none of this name.
            CallError: the vendor could not be asked.
        """
        with asking_for(batch_id):
            return await self.json("GET", batch_id)

    async def cancel(self, batch_id: str) -> None:
        """Ask for a batch's end.

        Raises:
            StatusError: the answer has an error status.
            TransientError: no whole answer came back.
        """
        await self._connection.send("POST", self._connection.versioned(f"{batch_id}:cancel"))

    async def upload(self, job: BatchJob) -> str:
        """Store a batch's lines as a file; the vendor's name of it.

        Raises:
            CallError: there is no file.
        """
        path = f"upload/{self._connection.versioned('files', job.version)}"
        body = {"file": {"displayName": job.tag, "mimeType": _LINES_TYPE}}
        with asking():
            url = await self._connection.begin_upload(path, body, len(job.lines), _LINES_TYPE)
            stored = self._read(await self._connection.upload(url, job.lines, _LINES_TYPE))
        with reading():
            return text_field(stored["file"], "name")

    async def download(self, name: str) -> AsyncGenerator[bytes, None]:
        """A file's bytes as they arrive.

        Raises:
            ResultsGone: the vendor no longer has it.
            CallError: the vendor could not be asked, or the stream broke.
        """
        path = self._connection.versioned(f"{name}:download?alt=media")
        with asking_for(name), _file_may_be_gone(name):
            async with aclosing(self._connection.stream(path)) as pieces:
                async for piece in pieces:
                    yield piece

    async def delete(self, name: str) -> None:
        """Delete a file or batch; one that no longer exists, or is another's, is left.

        Raises:
            CallError: the vendor could not be asked.
        """
        try:
            await self._connection.send("DELETE", self._connection.versioned(name))
        except StatusError as refused:
            if refused.status not in _NOT_OURS_TO_DELETE:
                raise refused.error from None

    async def close(self) -> None:
        """Close connections."""
        await self._connection.close()

    def _read(self, raw: bytes) -> JsonObject:
        return json_object(self._endpoint.body_without_key(raw))


@contextmanager
def _file_may_be_gone(name: str) -> Iterator[None]:
    """For a file that no longer exists the vendor says 403: no permission, "or it may not exist"."""
    try:
        yield
    except StatusError as refused:
        if refused.status == _FORBIDDEN and _MAY_BE_GONE in str(refused):
            raise ResultsGone(f"{name}: the vendor no longer has it ({refused})") from None
        raise
