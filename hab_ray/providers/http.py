"""HTTP code that vendors share: timeouts, broken connections, bodies, and rate limits in headers.

All vendors are reached through aiohttp, with or without their SDK. The SDKs' exceptions do not distinguish an
unreachable endpoint from a broken connection (openai 3.54 calls a reset a timeout), so the aiohttp exception that
caused them decides.
"""

import asyncio
import json
import math
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import aiohttp
import httpx2

from hab_ray.errors import CallError, FailureKind, Intercepted, TransientError, Unreachable, Untrusted
from hab_ray.providers.access import refuse_unreadable_certificates
from hab_ray.providers.base import Allowance, Endpoint, JsonObject, malformed
from hab_ray.providers.write_check import current

# The rate limiter bounds the calls in flight. Without a number here, aiohttp would apply its own limit of 100.
CONNECTIONS = httpx2.Limits(max_connections=65_536)
MAX_CONNECT_S = 30.0
# A limit noticed this much too late means that the process was suspended; then reading what has arrived takes a while.
SUSPENDED_S, READ_ARRIVED_S = 1.0, 10.0
# Larger values from a vendor are ignored: a wait of over a month, a limit of over a trillion per minute.
MAX_WAIT_S = 31 * 86_400.0
HIGHEST_LIMIT = 10**12
# The largest bodies are lists of embeddings as text and xAI's pages of 1,000 results: tens of megabytes.
MAX_BODY_MB = 256

_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_MAX_TEXT = 500
_NOT_FOUND = 404
_REMEDIES_OF_PROXY = {
    403: "have whoever runs the proxy allow the endpoint's host, or put the host into NO_PROXY",
    407: "put the user and password that it asks for into that variable, as http://USER:PASSWORD@HOST:PORT",
}
_EVENTS = re.compile(r"\s*(data|event|id|retry)?:")
_PAGE = re.compile(r"\s*(\ufeff\s*)?<(!doctype|!--|\?xml|html|head|body|center|script|h1)|error code: 1\d{3}\b", re.I)

Headers = Mapping[str, str]


class ErrorText(dict[str, Any]):
    """The text of an error response that is no JSON object, as an error body. APIs send JSON; proxies send text."""


class StatusError(Exception):
    """A response other than 2xx, for the caller, who knows what the status means for its request."""

    def __init__(self, status: int, error: CallError, body: JsonObject, headers: Headers) -> None:
        super().__init__(str(error))
        self.status, self.error, self.body, self.headers = status, error, body, headers
        if status == _NOT_FOUND and isinstance(body, ErrorText):
            error.page = " ".join(body["error"]["message"].split())


class TooLarge(aiohttp.ClientError):
    """A response of more than MAX_BODY_MB, which is not read on."""


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    """Return the whole body of a response; raise TooLarge if it would fill the memory."""
    read: list[bytes] = []
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > MAX_BODY_MB << 20:
            raise TooLarge
        read.append(piece)
    return b"".join(read)


class CheckedClient(httpx2.AsyncClient):
    """A mixin for an SDK's HTTP client that runs the current WriteCheck as a request's body is written.

    It bounds the bodies that it reads: all but that of a successful request for a stream.
    """

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        write = current()
        if write is not None and isinstance(request.stream, AsyncIterable) and _has_body(request):
            request = httpx2.Request(
                request.method,
                request.url,
                headers=request.headers,
                stream=_CheckedBody(write.pieces(request.stream)),
                extensions=request.extensions,
            )
        response = await super().send(request, stream=True, **options)
        if stream and response.is_success:
            return response
        async with aclosing(response):
            content = await whole(response.aiter_bytes())
        response.headers.pop("content-encoding", None)  # undone by now
        read = httpx2.Response(response.status_code, headers=response.headers, content=content, request=request)
        read.encoding = "utf-8"  # as all JSON; the charset in the headers may be one that is none
        return read


class _CheckedBody(httpx2.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces


def _has_body(request: httpx2.Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def new_session(**options: Any) -> aiohttp.ClientSession:
    """Return a session without cookies, with the same certificates and proxies as the SDKs' clients.

    Raises:
        ConfigError: the certificates cannot be read.
    """
    refuse_unreadable_certificates()
    connector = aiohttp.TCPConnector(limit=0, ssl=httpx2.create_ssl_context())
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True, **options)


def connect_limit_s(endpoint: Endpoint) -> float:
    """Return the limit for connecting, which ends before the request's: a call that was not sent costs nothing."""
    return min(endpoint.timeout_s / 2, MAX_CONNECT_S)


def time_limits(endpoint: Endpoint) -> httpx2.Timeout:
    """Return the endpoint's timeout with a shorter one for connecting, and none per read.

    `time_limit` bounds reads: the limit of aiohttp drops answers that arrived while this process was suspended.
    """
    return httpx2.Timeout(endpoint.timeout_s, connect=connect_limit_s(endpoint), read=None)


def upload_limits(endpoint: Endpoint) -> httpx2.Timeout:
    """Return the same with the endpoint's timeout for each read, for uploads, whose time limit is long."""
    return httpx2.Timeout(endpoint.timeout_s, connect=connect_limit_s(endpoint))


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Like `asyncio.timeout`, but answers that arrived while this process was suspended are still read.

    They are paid for, and would be dropped: after a suspension (Ctrl-Z, a paused machine), all limits are over at once.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    async with asyncio.timeout(None) as limit:

        def end() -> None:
            was_suspended = loop.time() - ends_at > SUSPENDED_S
            limit.reschedule(loop.time() + (READ_ARRIVED_S if was_suspended else 0.0))

        timer = loop.call_at(ends_at, end)
        try:
            yield
        finally:
            timer.cancel()


def connection_failure(error: BaseException, endpoint: Endpoint, has_answered: bool) -> CallError:
    """Return the error for a request whose HTTP response is missing or incomplete.

    A certificate that cannot be verified stops the provider, unless the endpoint `has_answered` before: then one of its
    machines may have a wrong one.
    """
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, aiohttp.ClientConnectorCertificateError) and not has_answered:
            return Untrusted(FailureKind.CONNECTION, _no_connection(cause))
        if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return Unreachable(FailureKind.CONNECTION, _no_connection(cause))
        if isinstance(cause, aiohttp.ClientHttpProxyError):
            return Unreachable(FailureKind.CONNECTION, _no_tunnel(cause))
    if any(isinstance(cause, TooLarge) for cause in causes):
        return malformed(
            f"it has more than {MAX_BODY_MB} MB; check the provider's url, and what answers there (a proxy, a gateway)"
        )
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TransientError(
            FailureKind.TIMEOUT,
            f"no answer within {endpoint.timeout_s:g} s (`limits: {{timeout_s: ...}}` of the provider)",
        )
    broken = TransientError(FailureKind.CONNECTION, f"the connection broke: {type(causes[-1]).__name__}")
    broken.is_answer = any(isinstance(cause, aiohttp.ClientPayloadError | httpx2.DecodingError) for cause in causes)
    return broken


def _no_connection(error: aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError) -> str:
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return (
            f"cannot connect to the proxy at {error.host}:{error.port}, which HTTPS_PROXY, HTTP_PROXY or ALL_PROXY "
            "names: correct the variable, or put the endpoint's host into NO_PROXY"
        )
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = getattr(error.certificate_error, "verify_message", error.certificate_error)
        return (
            f"cannot connect: the certificate of {error.host}:{error.port} cannot be verified ({cause}). If a proxy or "
            "firewall of your network reads the traffic, or the endpoint's certificate is your own, set SSL_CERT_FILE "
            "to a file with that authority's certificate beside the usual ones; otherwise check this machine's clock "
            "and the provider's url"
        )
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"cannot connect: connection refused at {error.host}:{error.port}"
    return f"cannot connect: {error}"


def _no_tunnel(error: aiohttp.ClientHttpProxyError) -> str:
    remedy = _REMEDIES_OF_PROXY.get(error.status, "if this machine needs no proxy for it, put its host into NO_PROXY")
    return (
        "cannot connect: the proxy that HTTPS_PROXY or ALL_PROXY names does not connect to the endpoint "
        f"(HTTP {error.status} {error.message}): {remedy}"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def json_object(content: bytes | str) -> JsonObject:
    """Return the JSON object of a successful response.

    Raises:
        Intercepted: the content is a web page, such as a gateway's login page.
        TransientError: the content is not a JSON object.
    """
    try:
        body = _parsed(content)
    except (ValueError, RecursionError) as error:
        text = content if isinstance(content, str) else content.decode(errors="replace")
        raise intercepted(text) if is_page(text) else malformed(_no_json(text) or error) from None
    if not isinstance(body, dict):
        raise malformed("not a JSON object")
    return body


def _no_json(text: str) -> str | None:
    """Return what came instead of JSON, if gateways are known to send it."""
    if _EVENTS.match(text):
        return "it is an event stream, and none was asked for; have whoever runs the gateway turn streaming off"
    return None if text.strip() else "it is empty"


def _parsed(content: bytes | str) -> object:
    """Parse JSON. A number with more digits than Python converts becomes infinity, for its field's check to report."""
    try:
        return json.loads(content)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(content, parse_int=_int_or_infinity)


def _int_or_infinity(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return math.copysign(math.inf, -1 if digits.startswith("-") else 1)


def is_page(text: str) -> bool:
    """Whether a response is a web page, or the line that a CDN sends instead of one; no vendor's API sends either."""
    return _PAGE.match(text) is not None


def intercepted(text: str) -> Intercepted:
    """Return the error for a web page instead of an answer."""
    page = " ".join(text.split())[:_MAX_TEXT]
    return Intercepted(
        FailureKind.SERVER,
        "a web page came instead of an answer, probably from a proxy, firewall or challenge page between here and the "
        f"vendor; check the network and the provider's url ({page})",
    )


def error_object(content: str) -> JsonObject:
    """Return the JSON object of an error response, alone or in a list (Gemini); other text becomes its message."""
    try:
        body = json.loads(content.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, list) and len(body) == 1:
        (body,) = body
    return body if isinstance(body, dict) else ErrorText(error={"message": content[:_MAX_TEXT]})


def retry_after_s(headers: Headers) -> float | None:
    """Return the wait that a vendor asks for, in seconds, or None.

    A date is compared with the response's date, so that a wrong local clock does not matter.
    """
    retry_after = headers.get("retry-after", "")
    for value, scale in ((headers.get("retry-after-ms", ""), 1e-3), (retry_after, 1.0)):
        number = _number(value)
        if number is not None:
            return _plausible_wait(number * scale)
    return until_s(http_date(retry_after), headers)


def _plausible_wait(seconds: float) -> float | None:
    return max(0.0, seconds) if seconds <= MAX_WAIT_S else None


def until_s(moment: datetime | None, headers: Headers) -> float | None:
    """Return the seconds from the response's date to a moment, or None if either is missing."""
    sent = http_date(headers.get("date", ""))
    if moment is None or sent is None:
        return None
    return _plausible_wait((moment - sent).total_seconds())


def unix_time(seconds: Any) -> datetime | None:
    """Read a time in seconds since 1970; None if it is not one, such as one in milliseconds."""
    try:
        return datetime.fromtimestamp(float(seconds), UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def rfc3339(text: Any) -> datetime | None:
    """Parse a time such as 2026-11-21T12:00:00Z; None if it is not one."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def duration_s(text: str | None) -> float | None:
    """Parse a duration such as 12ms, 1.5s or 6m0s (Go, protobuf), or plain seconds; None if it is not a wait."""
    parts = _PART.findall(text or "")
    if parts and "".join(number + unit for number, unit in parts) == text:
        return _plausible_wait(sum(float(number) * _SECONDS[unit] for number, unit in parts))
    seconds = _number(text or "")
    return None if seconds is None else _plausible_wait(seconds)


def allowance(limit: str | None, remaining: str | None, reset_s: float | None) -> Allowance | None:
    """Return one limit from response headers, or None; some endpoints send 0 or -1 for a limit they do not have."""
    total, left = _number(limit or ""), _number(remaining or "")
    if total is None or not 1 <= total <= HIGHEST_LIMIT:
        return None
    return Allowance(int(total), None if left is None or not 0 <= left <= HIGHEST_LIMIT else int(left), reset_s)


@lru_cache(maxsize=16)
def http_date(text: str) -> datetime | None:
    """Parse a time such as Sat, 21 Nov 2026 12:00:00 GMT; None if it is not one."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
