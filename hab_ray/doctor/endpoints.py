"""Checks whether vendors are reachable, without sending a key, and whether their keys are set, without showing them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import aiohttp

from hab_ray.catalog.models import ProviderEntry
from hab_ray.doctor.findings import Finding, ok, warn, wrong
from hab_ray.errors import ConfigError
from hab_ray.providers.access import endpoint_of, has_secret, variables_of
from hab_ray.providers.base import NO_KEY
from hab_ray.providers.http import http_date, new_session
from hab_ray.visible import one_line

WITHIN_S = 5.0
_SLOW_S = 2.0
_MAX_CAUSE = 160


@dataclass(frozen=True)
class EndpointAnswer:
    """An endpoint's answer to a request without a key, or the `problem`. `date` is by the endpoint's clock."""

    provider: str
    url: str
    status: int | None
    seconds: float
    date: datetime | None = None
    problem: str = ""


async def ask_all(providers: Mapping[str, ProviderEntry], within_s: float = WITHIN_S) -> list[EndpointAnswer]:
    """Send a request to every endpoint with a URL concurrently, each with a timeout of `within_s` seconds."""
    async with new_session() as session:
        requests = [_ask(session, name, entry.url, within_s) for name, entry in providers.items() if entry.url]
        return list(await asyncio.gather(*requests))


async def _ask(session: aiohttp.ClientSession, provider: str, url: str, within_s: float) -> EndpointAnswer:
    started = time.monotonic()
    try:
        async with asyncio.timeout(within_s), session.get(url, allow_redirects=False) as response:
            date = http_date(response.headers.get("Date", ""))
            return EndpointAnswer(provider, url, response.status, time.monotonic() - started, date)
    except TimeoutError:
        problem = f"no answer within {within_s:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        problem = one_line(str(error) or type(error).__name__, _MAX_CAUSE)
    return EndpointAnswer(provider, url, None, time.monotonic() - started, problem=problem)


def reachable(answered: EndpointAnswer) -> Finding:
    """Return whether an endpoint is reachable. Any HTTP answer will do: most vendors refuse requests without a key."""
    subject = f"{answered.provider}: endpoint"
    if answered.status is None:
        return wrong(
            subject,
            f"{answered.url}: {answered.problem}",
            "check the network, its proxy (HTTPS_PROXY) and firewall, and `url:`",
        )
    seen = f"{answered.url} answers in {answered.seconds * 1000:.0f} ms (asked without a key: HTTP {answered.status})"
    if 300 <= answered.status < 400:
        return warn(subject, seen, "it redirects, and redirects are not followed: is it the network's login page?")
    if answered.seconds > _SLOW_S:
        return warn(subject, seen, "the network is slow; every call takes that much longer")
    return ok(subject, seen)


def keys(provider: str, entry: ProviderEntry) -> Sequence[Finding]:
    """Return whether the variables of an account's secrets are set; never show their values."""
    subject, names = f"{provider}: key", variables_of(entry)
    if not names:
        return [ok(subject, f"none is configured; calls send {NO_KEY!r} instead")]
    missing = [name for name in names if not has_secret(name, os.environ)]
    if missing:
        remedy = "set the variable, or let <variable>_FILE name a file with the key; or leave these models out"
        return [wrong(subject, f"{name} is not set", remedy) for name in missing]
    try:
        endpoint_of(provider, entry, entry.url or "")
    except ConfigError as error:
        cause, _, remedy = str(error).partition("; ")
        return [wrong(subject, cause, remedy)]
    return [ok(subject, f"{' and '.join(names)} set")]
