"""HTTP exchanges with the Gemini Developer API, over aiohttp.

The SDK (google-genai) is not used. Its typed methods rename and add fields, so that a batch line would differ from the
body sent online; they refuse answers with a field they do not know, and drop what a failed batch says of its failure.
Its generic request is private, and its uploads follow redirects and send failed pieces again.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from io import BytesIO
from urllib.parse import urlsplit

import aiohttp
import httpx2
from multidict import CIMultiDict, CIMultiDictProxy

from hab_ray.providers.base import Endpoint, JsonObject, malformed
from hab_ray.providers.google.errors import classify
from hab_ray.providers.google.version import DEFAULT_VERSION, stated_version
from hab_ray.providers.http import MAX_CONNECT_S, StatusError, broken, error_object, retry_after_s
from hab_ray.providers.write_check import current

_AGENT = "hab-ray"
_PIECE, _PART = 8 << 20, 1 << 18
_UPLOAD_STATUS = "x-goog-upload-status"


class Connection:
    """Connections to one endpoint. Each request is sent once; no redirect is followed.

    Every request raises StatusError for an answer other than 2xx, TransientError where no whole answer came back.
    Opened by the first request, which must be made where an event loop runs.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url.rstrip("/")
        self._headers = _headers(endpoint)
        connect_s = min(endpoint.timeout_s, MAX_CONNECT_S)
        self._whole = aiohttp.ClientTimeout(total=endpoint.timeout_s, sock_connect=connect_s)
        self._each_read = aiohttp.ClientTimeout(sock_connect=connect_s, sock_read=endpoint.timeout_s)
        self._session: aiohttp.ClientSession | None = None

    def versioned(self, path: str, version: str | None = None) -> str:
        """A path below the API version of a request: the model's, else the provider's, the environment's, or v1beta.

        Every verb asks here, because a file or a batch of one version is not found under another. Not v1, which has
        no systemInstruction, responseMimeType or thinkingConfig. "beta" is the SDK's own name for v1beta.
        """
        named = version or stated_version(self._endpoint.api_version) or DEFAULT_VERSION
        return f"{DEFAULT_VERSION if named == 'beta' else named}/{path.removeprefix('/')}"

    async def send(self, method: str, path: str, body: JsonObject | None = None) -> bytes:
        """A request for a path below the endpoint's URL; the answer's body."""
        data = None if body is None else json.dumps(body).encode()
        _, raw = await self._exchange(method, f"{self._url}/{path}", self._headers, data)
        return raw

    async def begin_upload(self, path: str, body: JsonObject, size: int, content_type: str) -> str:
        """Announce a file of so many bytes; the URL to which it is to be sent."""
        announced = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(size),
            "X-Goog-Upload-Header-Content-Type": content_type,
        }
        headers = CIMultiDict({**self._headers, **announced})
        answer_headers, _ = await self._exchange("POST", f"{self._url}/{path}", headers, json.dumps(body).encode())
        url = answer_headers.get("x-goog-upload-url")
        if not url:
            raise malformed("no x-goog-upload-url")
        return url

    async def upload(self, url: str, content: bytes, content_type: str) -> bytes:
        """Send a file's bytes to an upload URL, 8 MB at a time; the body of the last answer.

        The key is not sent: the URL itself is the right to upload. The endpoint's own headers are sent to its own host
        only, because the vendor may name any other.
        """
        raw = b""
        for start in range(0, len(content), _PIECE):
            is_last = start + _PIECE >= len(content)
            headers = CIMultiDict(
                {
                    **self._own_headers(url),
                    "Content-Type": content_type,
                    "X-Server-Timeout": _server_timeout(self._endpoint),
                    "X-Goog-Upload-Command": "upload, finalize" if is_last else "upload",
                    "X-Goog-Upload-Offset": str(start),
                }
            )
            answer_headers, raw = await self._exchange("POST", url, headers, content[start : start + _PIECE])
            if answer_headers.get(_UPLOAD_STATUS) != ("final" if is_last else "active"):
                raise malformed("the upload's status is neither active nor, after the last piece, final")
        return raw

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """A GET whose body comes in pieces as they arrive: the time limit holds for each read, not for the whole."""
        try:
            async with asyncio.timeout(self._endpoint.timeout_s):
                response = await self._opened().get(
                    f"{self._url}/{path}", headers=self._headers, timeout=self._each_read, allow_redirects=False
                )
            async with response:
                if not _is_success(response):
                    raise self._status_error(response, await response.read())
                while piece := await response.content.readany():
                    yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise broken(error) from None

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()

    async def _exchange(
        self, method: str, url: str, headers: CIMultiDict[str], data: bytes | None
    ) -> tuple[CIMultiDictProxy[str], bytes]:
        write, body = current(), _body(data)
        if write is not None and data is not None:
            headers = CIMultiDict(headers, **{"Content-Length": str(len(data))})
            body = write.pieces(_parts(data))
        request = self._opened().request(
            method,
            url,
            data=body,
            headers=headers,
            timeout=self._whole,
            allow_redirects=False,
        )
        try:
            async with request as response:
                raw = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise broken(error) from None
        if not _is_success(response):
            raise self._status_error(response, raw)
        return response.headers, raw

    def _opened(self) -> aiohttp.ClientSession:
        """The session, whose certificates and proxies are those of the other vendors' clients."""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=httpx2.create_ssl_context())
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True
            )
        return self._session

    def _own_headers(self, url: str) -> Mapping[str, str]:
        here, there = urlsplit(self._endpoint.url), urlsplit(url)
        return self._endpoint.headers if (here.scheme, here.netloc) == (there.scheme, there.netloc) else {}

    def _status_error(self, response: aiohttp.ClientResponse, raw: bytes) -> StatusError:
        body = error_object(self._endpoint.body_without_key(raw).decode("utf-8", "replace"))
        return StatusError(response.status, classify(response.status, body, retry_after_s(response.headers)))


def _headers(endpoint: Endpoint) -> CIMultiDict[str]:
    """The headers of every request to the endpoint itself; its own go before ours."""
    headers = CIMultiDict(
        {
            "Content-Type": "application/json",
            "User-Agent": _AGENT,
            "X-Server-Timeout": _server_timeout(endpoint),
            "x-goog-api-key": endpoint.key,
        }
    )
    headers.update(endpoint.headers)
    return headers


def _body(data: bytes | None) -> bytes | BytesIO | AsyncIterator[bytes] | None:
    """A request's body as aiohttp writes it best; long bytes would hold up the event loop."""
    return BytesIO(data) if data is not None and len(data) > _PART else data


async def _parts(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _PART):
        yield data[start : start + _PART]


def _server_timeout(endpoint: Endpoint) -> str:
    return str(math.ceil(endpoint.timeout_s))


def _is_success(response: aiohttp.ClientResponse) -> bool:
    return 200 <= response.status < 300
