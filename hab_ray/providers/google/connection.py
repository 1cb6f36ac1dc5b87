"""HTTP exchanges with the Gemini Developer API, over aiohttp.

The SDK (google-genai) is not used. Its typed methods rename and add fields, so that a batch line would differ from the
body sent online; they refuse responses with unknown fields, and drop the reason why a batch failed. Its generic request
is private, and its uploads follow redirects and retry failed pieces.
"""

import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from io import BytesIO

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy

from hab_ray.providers.base import Endpoint, JsonObject
from hab_ray.providers.google import DEFAULT_VERSION, stated_version
from hab_ray.providers.google.errors import classify, classify_status
from hab_ray.providers.http import (
    StatusError,
    connect_limit_s,
    connection_failure,
    error_object,
    json_object,
    new_session,
    retry_after_s,
    time_limit,
    whole,
)
from hab_ray.providers.write_check import current

_AGENT = "hab-ray"
_PART = 1 << 18


class Connection:
    """Connections to one endpoint. Each request is sent once, and redirects are not followed.

    Requests raise StatusError for a response other than 2xx, TransientError for a missing or incomplete one, and
    Untrusted if the certificate cannot be verified. The first request opens the session, so it needs a running
    event loop.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._url = endpoint.url.rstrip("/")
        self.headers = _headers(endpoint)
        connect_s = connect_limit_s(endpoint)
        self._timeout = aiohttp.ClientTimeout(sock_connect=connect_s)
        self._timeout_per_read = aiohttp.ClientTimeout(sock_connect=connect_s, sock_read=endpoint.timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._has_answered = False

    def address(self, path: str, version: str | None = None, above: str = "") -> str:
        """Return the URL of a path below the API version: the model's, the provider's, the environment's, or v1beta.

        Every request uses it, because a file or batch of one version is not found under another. The default is not v1,
        which lacks systemInstruction, responseMimeType and thinkingConfig. "beta" is the SDK's name for v1beta. `above`
        is a path prefix before the version.
        """
        stated = version or stated_version(self.endpoint.api_version) or DEFAULT_VERSION
        return f"{self._url}/{above}{DEFAULT_VERSION if stated == 'beta' else stated}/{path.removeprefix('/')}"

    async def send(self, method: str, path: str, body: JsonObject | None = None, version: str | None = None) -> bytes:
        """Send a request for a path and return the response's body, with the key masked."""
        data = None if body is None else json.dumps(body).encode()
        _, raw = await self.exchange(method, self.address(path, version), self.headers, data)
        return self.endpoint.body_without_key(raw)

    async def ask(
        self, method: str, path: str, body: JsonObject | None = None, version: str | None = None
    ) -> JsonObject:
        """Send a request for a path and return the response's JSON object.

        An error with HTTP 200, as of some gateways, is a refusal. A failed batch has an error beside name and metadata.
        """
        answer = json_object(await self.send(method, path, body, version))
        error = answer.get("error")
        if isinstance(error, Mapping) and not any(map(answer.get, ("name", "metadata", "candidates"))):
            raise classify_status(error)
        return answer

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """Stream the body of a GET; the timeout applies to each read, not to the whole."""
        try:
            async with time_limit(self.endpoint.timeout_s):
                response = await self._opened().get(
                    self.address(path), headers=self.headers, timeout=self._timeout_per_read, allow_redirects=False
                )
            self._has_answered = True
            async with response:
                if not _is_success(response):
                    raise self._status_error(response, await whole(response.content.iter_any()))
                while piece := await response.content.readany():
                    yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise connection_failure(error, self.endpoint, self._has_answered) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def exchange(
        self, method: str, url: str, headers: CIMultiDict[str], data: bytes | None
    ) -> tuple[CIMultiDictProxy[str], bytes]:
        """Send a request to a URL and return the response's headers and body."""
        write, body = current(), _body(data)
        if write is not None and data is not None:
            headers = CIMultiDict(headers, **{"Content-Length": str(len(data))})
            body = write.pieces(_parts(data))
        request = self._opened().request(
            method, url, data=body, headers=headers, timeout=self._timeout, allow_redirects=False
        )
        try:
            async with time_limit(self.endpoint.timeout_s), request as response:
                self._has_answered = True
                raw = await whole(response.content.iter_any())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise connection_failure(error, self.endpoint, self._has_answered) from None
        if not _is_success(response):
            raise self._status_error(response, raw)
        return response.headers, raw

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = new_session()
        return self._session

    def _status_error(self, response: aiohttp.ClientResponse, raw: bytes) -> StatusError:
        body = error_object(self.endpoint.body_without_key(raw).decode("utf-8", "replace"))
        error = classify(response.status, body, retry_after_s(response.headers))
        return StatusError(response.status, error, body, response.headers)


def _headers(endpoint: Endpoint) -> CIMultiDict[str]:
    """Return the headers of every request to the endpoint; the configured ones override ours."""
    headers = CIMultiDict(
        {
            "Content-Type": "application/json",
            "User-Agent": _AGENT,
            "X-Server-Timeout": server_timeout(endpoint),
            "x-goog-api-key": endpoint.key,
        }
    )
    headers.update(endpoint.headers)
    return headers


def _body(data: bytes | None) -> bytes | BytesIO | AsyncIterator[bytes] | None:
    """Wrap a long body, because aiohttp would block the event loop while it writes long bytes."""
    return BytesIO(data) if data is not None and len(data) > _PART else data


async def _parts(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _PART):
        yield data[start : start + _PART]


def server_timeout(endpoint: Endpoint) -> str:
    """Return the value of X-Server-Timeout, after which the vendor gives up, in whole seconds."""
    return str(math.ceil(endpoint.timeout_s))


def _is_success(response: aiohttp.ClientResponse) -> bool:
    return 200 <= response.status < 300
