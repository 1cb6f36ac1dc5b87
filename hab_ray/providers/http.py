"""What the vendors' HTTP has in common: connections, broken ones, bodies, and what headers tell.

All three SDKs talk through aiohttp. The SDKs' own exceptions do not tell an endpoint that cannot be reached
from a connection that broke (openai 3.54 calls a reset a timeout), so the aiohttp exception beneath decides.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

import aiohttp
import httpx2

from hab_ray.errors import FailureKind, TransientError, Unreachable
from hab_ray.providers.base import Allowance, Endpoint, JsonObject, malformed

# The limiter bounds the calls in flight. "No bound" cannot be said here: aiohttp then takes its own, 100.
CONNECTIONS = httpx2.Limits(max_connections=65_536)
LONGEST_CONNECT_S = 30.0

_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_LONGEST_TEXT = 500

Headers = Mapping[str, str]


def time_limits(endpoint: Endpoint) -> httpx2.Timeout:
    """The endpoint's time limit for each read and write, and a shorter one for connecting."""
    return httpx2.Timeout(endpoint.timeout_s, connect=min(endpoint.timeout_s, LONGEST_CONNECT_S))


def broken(error: BaseException) -> TransientError:
    """What it means that a request brought no HTTP answer, or half of one."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return Unreachable(FailureKind.CONNECTION, f"cannot connect: {cause}")
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TransientError(FailureKind.TIMEOUT, "no answer within the time limit")
    return TransientError(FailureKind.CONNECTION, f"the connection broke: {type(causes[-1]).__name__}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def json_object(content: bytes | str) -> JsonObject:
    """The JSON object of a successful response.

    Raises:
        TransientError: it is none.
    """
    try:
        body = json.loads(content)
    except ValueError as error:
        raise malformed(error) from None
    if not isinstance(body, dict):
        raise malformed("not a JSON object")
    return body


def error_object(content: str) -> JsonObject:
    """The JSON object of an error response; a proxy's or gateway's page becomes the message of one."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"error": {"message": content[:_LONGEST_TEXT]}}


def retry_after_s(headers: Headers) -> float | None:
    """The wait a vendor asks for, in seconds; None where it names none.

    A date is measured against the response's own, so that a wrong clock here does no harm.
    """
    wait = headers.get("retry-after", "")
    for value, scale in ((headers.get("retry-after-ms", ""), 1e-3), (wait, 1.0)):
        number = _number(value)
        if number is not None:
            return max(0.0, number * scale)
    return until_s(_http_date(wait), headers)


def until_s(moment: datetime | None, headers: Headers) -> float | None:
    """Seconds from the response's own date to a moment; None where either is missing."""
    sent = _http_date(headers.get("date", ""))
    return None if moment is None or sent is None else max(0.0, (moment - sent).total_seconds())


def rfc3339(text: str | None) -> datetime | None:
    """A moment such as 2026-11-21T12:00:00Z; None where it is not one."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def duration_s(text: str | None) -> float | None:
    """A duration such as 12ms, 1.5s or 6m0s (Go, protobuf), or plain seconds; None where it is neither."""
    parts = _PART.findall(text or "")
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return _number(text or "")


def allowance(limit: str | None, remaining: str | None, reset_s: float | None) -> Allowance | None:
    """One limit as headers tell it; some endpoints send 0 or -1 for a limit they do not have."""
    most, left = _number(limit or ""), _number(remaining or "")
    if most is None or most <= 0:
        return None
    return Allowance(int(most), None if left is None or left < 0 else int(left), reset_s)


@lru_cache(maxsize=16)
def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
