"""Requests for files and batches of a Gemini account.

Source: the API reference, and published captures of the vendor's responses.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from urllib.parse import urlsplit

from multidict import CIMultiDict

from hab_ray.providers.base import JsonObject, malformed, reading
from hab_ray.providers.batch_http import download_errors, item_errors, request_errors, text_field
from hab_ray.providers.batching import BatchJob, ResultsGone
from hab_ray.providers.google.connection import Connection, server_timeout
from hab_ray.providers.http import StatusError, json_object

_LINES_TYPE = "application/jsonl"
_PIECE = 8 << 20
_UPLOAD_STATUS = "x-goog-upload-status"
_CANNOT_DELETE = {400, 403, 404}
_FORBIDDEN, _MAY_BE_GONE = 403, "may not exist"


class FileAccount(Connection):
    """An account with files and batches, addressed by their names (`files/...`, `batches/...`)."""

    async def batch(self, batch_id: str) -> JsonObject:
        """Return a batch as the vendor shows it.

        Raises:
            ResultsGone: there is no such batch.
            CallError: the request failed.
        """
        with item_errors(batch_id):
            return await self.ask("GET", batch_id)

    async def upload(self, job: BatchJob) -> str:
        """Upload a batch's lines as a file and return the file's name; raise CallError if the file was not stored."""
        with request_errors():
            stored = await self._put(await self._begin(job), job.lines)
        with reading():
            return text_field(stored["file"], "name")

    async def _begin(self, job: BatchJob) -> str:
        """Start an upload and return the URL for the file's bytes."""
        announced = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(len(job.lines)),
            "X-Goog-Upload-Header-Content-Type": _LINES_TYPE,
        }
        body = {"file": {"displayName": job.tag, "mimeType": _LINES_TYPE}}
        url = self.address("files", job.version, above="upload/")
        headers = CIMultiDict({**self.headers, **announced})
        response_headers, _ = await self.exchange("POST", url, headers, json.dumps(body).encode())
        return text_field(response_headers, "x-goog-upload-url")

    async def _put(self, url: str, content: bytes) -> JsonObject:
        """Send a file's bytes to an upload URL, 8 MB at a time, and return the JSON object of the last response.

        The key is not sent: the URL itself grants the right to upload. The endpoint's configured headers are sent only
        to its own host, because the vendor may name another one.
        """
        raw = b""
        here, there = urlsplit(self.endpoint.url), urlsplit(url)
        own = self.endpoint.headers if (here.scheme, here.netloc) == (there.scheme, there.netloc) else {}
        for start in range(0, len(content), _PIECE):
            is_last = start + _PIECE >= len(content)
            headers = CIMultiDict(
                {
                    **own,
                    "Content-Type": _LINES_TYPE,
                    "X-Server-Timeout": server_timeout(self.endpoint),
                    "X-Goog-Upload-Command": "upload, finalize" if is_last else "upload",
                    "X-Goog-Upload-Offset": str(start),
                }
            )
            response_headers, raw = await self.exchange("POST", url, headers, content[start : start + _PIECE])
            if response_headers.get(_UPLOAD_STATUS) != ("final" if is_last else "active"):
                raise malformed("the upload's status is neither active nor, after the last piece, final")
        return json_object(self.endpoint.body_without_key(raw))

    async def download(self, name: str) -> AsyncGenerator[bytes, None]:
        """Stream a file's bytes.

        Raises:
            ResultsGone: the vendor no longer has it.
            CallError: the request failed, or the stream broke.
        """
        with download_errors(name), _file_may_be_gone(name):
            async with aclosing(self.stream(f"{name}:download?alt=media")) as pieces:
                async for piece in pieces:
                    yield piece

    async def delete(self, name: str) -> None:
        """Delete a file or batch, unless it does not exist or belongs to another account.

        Raises:
            CallError: the request failed.
        """
        try:
            await self.send("DELETE", name)
        except StatusError as refused:
            if refused.status not in _CANNOT_DELETE:
                raise refused.error from None


@contextmanager
def _file_may_be_gone(name: str) -> Iterator[None]:
    """Translate the 403 that the vendor sends for a missing file: no permission, "or it may not exist"."""
    try:
        yield
    except StatusError as refused:
        if refused.status == _FORBIDDEN and _MAY_BE_GONE in str(refused):
            raise ResultsGone(f"{name}: the vendor no longer has it ({refused})") from None
        raise
