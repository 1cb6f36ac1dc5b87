"""An account behind a vendor's SDK: requests through the SDK's generic methods, and its list of batches.

The SDK's typed methods would refuse or drop what compatible accounts add.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import aiohttp
import httpx2

from hab_ray.errors import CallError
from hab_ray.providers.base import Endpoint, JsonObject, malformed, reading
from hab_ray.providers.batch_http import MAX_UPLOAD_S, cancelling, download_errors, item_errors, request_errors
from hab_ray.providers.batch_lines import read_lines
from hab_ray.providers.batching import BatchStatus, Line, SeenBatch
from hab_ray.providers.http import (
    CONNECTIONS,
    Headers,
    StatusError,
    connection_failure,
    error_object,
    json_object,
    retry_after_s,
    time_limit,
    time_limits,
    upload_limits,
)

Query = Mapping[str, object]

# What SDKs let through: openai of a status line that is none, both of an error's body that breaks.
_BROKEN = (httpx2.HTTPError, aiohttp.ClientError, TimeoutError)


@dataclass(frozen=True)
class Sdk:
    """The parts of an SDK that are used: its client, the HTTP client to pass to it, and its exceptions.

    The client raises `refused` for a response with an error status, whose body `classify` reads, and `broken` for a
    missing or partial response. `error_status` returns the status that an error body names, which some gateways send
    with HTTP 200, and None for any other body.
    """

    client: Callable[..., Any]
    http_client: Callable[..., httpx2.AsyncClient]
    refused: type[Any]
    broken: type[Exception]
    classify: Callable[[int, JsonObject, float | None], CallError]
    error_status: Callable[[JsonObject], int | None]


class SdkAccount:
    """An account. Every request is sent once and raises StatusError for an error status, else TransientError."""

    def __init__(self, endpoint: Endpoint, sdk: Sdk) -> None:
        self.endpoint = endpoint
        self._sdk, self._has_answered = sdk, False
        self._root = endpoint.url.rstrip("/")  # SDKs take longer to join a path to their base URL
        self._client = sdk.client(
            base_url=endpoint.url,
            api_key=endpoint.key,
            default_headers=endpoint.headers,
            max_retries=0,
            timeout=time_limits(endpoint),
            http_client=sdk.http_client(limits=CONNECTIONS, follow_redirects=False),
        )

    async def get(self, path: str, query: Query | None = None) -> httpx2.Response:
        """Send a GET request."""
        return await self.ask(self._client.get(path, cast_to=httpx2.Response, options={"params": query or {}}))

    async def download(self, name: str, path: str, headers: Headers | None = None) -> AsyncGenerator[bytes, None]:
        """Stream the body of a GET for the batch or file `name`.

        Raises:
            ResultsGone: the vendor no longer has it.
            CallError: the request failed, or the stream broke.
        """
        options = {"headers": headers or {}}
        with download_errors(name):
            response = await self.ask(self._client.get(path, cast_to=httpx2.Response, options=options, stream=True))
        try:
            chunks = response.aiter_bytes()
            while True:
                async with time_limit(self.endpoint.timeout_s):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    break
                yield chunk
        except _BROKEN as error:
            raise connection_failure(error, self.endpoint, has_answered=True) from None
        finally:
            await response.aclose()

    async def post(self, path: str, encoded: bytes | None = None, headers: Headers | None = None) -> httpx2.Response:
        """Send a POST request with a body of encoded JSON."""
        options = {"headers": headers or {}}
        request = self._client.post(self._root + path, content=encoded, options=options, cast_to=httpx2.Response)
        return await self.ask(request)

    async def send(self, path: str, content: AsyncIterator[bytes], headers: Headers) -> httpx2.Response:
        """Send a POST request with a long body in pieces."""
        options = {"headers": headers, "timeout": upload_limits(self.endpoint)}
        request = self._client.post(path, content=content, options=options, cast_to=httpx2.Response)
        return await self.ask(request, MAX_UPLOAD_S)

    async def delete(self, path: str) -> None:
        await self.ask(self._client.delete(path, cast_to=httpx2.Response))

    async def ask(self, request: Awaitable[httpx2.Response], limit_s: float | None = None) -> httpx2.Response:
        """Await a request of the SDK, for at most `limit_s`, by default the endpoint's time limit.

        Raises:
            StatusError: the response has an error status; its text does not hold the key.
            TransientError: the response is missing or incomplete.
            Untrusted: the endpoint's certificate cannot be verified.
        """
        try:
            async with time_limit(limit_s or self.endpoint.timeout_s):
                response = await request
            self._has_answered = True
            return response
        except self._sdk.refused as error:
            self._has_answered = True
            body = error_object(self.endpoint.without_key(error.response.text))
            raise self._refusal(error.response.status_code, body, error.response.headers) from None
        except (self._sdk.broken, *_BROKEN) as error:
            raise connection_failure(error, self.endpoint, self._has_answered) from None
        except (httpx2.InvalidURL, UnicodeEncodeError):
            raise malformed("it names a batch or file with characters that no URL can hold") from None

    def _refusal(self, status: int, body: JsonObject, headers: Headers) -> StatusError:
        return StatusError(status, self._sdk.classify(status, body, retry_after_s(headers)), body, headers)

    def read(self, response: httpx2.Response) -> JsonObject:
        """Return the JSON object of a successful response, with the key masked.

        Raises:
            StatusError: it is an error body.
        """
        body = json_object(self.endpoint.body_without_key(response.content))
        status = self._sdk.error_status(body)
        if status is not None:
            raise self._refusal(status, body, response.headers)
        return body

    async def close(self) -> None:
        await self._client.close()


class SdkBatches(ABC):
    """A batch API with a list that is newest first and paged by the last id.

    `path` is the list's path, `page_rows` its page size and `after` the query parameter for the last id.
    `owner_headers` are the response headers that name the organisation and the project or workspace.
    """

    path: ClassVar[str]
    page_rows: ClassVar[int]
    after: ClassVar[str]
    owner_headers: ClassVar[tuple[str, str]]

    def __init__(self, account: SdkAccount) -> None:
        self._endpoint, self._account = account.endpoint, account
        self._owner: str | None = None

    @abstractmethod
    def seen(self, batch: JsonObject) -> SeenBatch:
        """Read a batch of the list."""

    @abstractmethod
    async def poll(self, batch_id: str) -> BatchStatus:
        """Return the state of a batch."""

    @abstractmethod
    def body(self, record: JsonObject) -> JsonObject:
        """Return the body that the request of a result would have got online.

        Raises:
            CallError: as online, or because the batch ended before the request's turn.
        """

    async def owner(self) -> str:
        """Return `organisation/project`, from the headers of the list: other responses name them less often."""
        if self._owner is None:
            await self.newest()
        return self._owner or ""

    async def newest(self) -> str | None:
        page = await self._page({"limit": 1})
        with reading():
            return str(page["data"][0]["id"]) if page["data"] else None

    async def since(self, newest: str | None) -> list[SeenBatch]:
        """A page without new batches ends the list: a server that ignores `after` sends the same page for ever."""
        found: dict[str, SeenBatch] = {}
        query: dict[str, object] = {"limit": self.page_rows}
        while True:
            page = await self._page(query)
            with reading():
                batches = [self.seen(batch) for batch in page["data"]]
                more = bool(page.get("has_more"))
            fresh = [batch for batch in batches if batch.id not in found]
            for batch in fresh:
                if batch.id == newest:
                    return list(found.values())
                found[batch.id] = batch
            if not more or not fresh:
                return list(found.values())
            query[self.after] = batches[-1].id

    async def cancel(self, batch_id: str) -> None:
        async with cancelling(batch_id, self.poll):
            await self._account.post(f"{self.path}/{batch_id}/cancel")

    async def close(self) -> None:
        await self._account.close()

    async def get(self, batch_id: str) -> JsonObject:
        """Return a batch as the vendor shows it."""
        with item_errors(batch_id):
            return self._account.read(await self._account.get(f"{self.path}/{batch_id}"))

    def lines(self, batch_id: str, path: str, headers: Headers | None = None) -> AsyncGenerator[Line, None]:
        """Stream the results of a batch from a file."""
        chunks = self._account.download(batch_id, path, headers)
        return read_lines(self._endpoint, chunks, lambda record: record.get("custom_id"), self.body)

    async def _page(self, query: Query) -> JsonObject:
        with request_errors():
            response = await self._account.get(self.path, query)
            names = (response.headers.get(header) for header in self.owner_headers)
            self._owner = self._endpoint.without_key("/".join(name for name in names if name))
            return self._account.read(response)
