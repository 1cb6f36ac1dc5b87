"""Whether vendors can be reached from here, asked without a key, and whether their keys are set, by name only."""

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
from hab_ray.providers.http import http_date, new_session
from hab_ray.visible import one_line

WITHIN_S = 5.0
_SLOW_S = 2.0
_MAX_CAUSE = 160


@dataclass(frozen=True)
class EndpointAnswer:
    """What an endpoint said to a request without a key; `problem` where it said nothing. `date` is its own clock's."""

    provider: str
    url: str
    status: int | None
    seconds: float
    date: datetime | None = None
    problem: str = ""


async def ask_all(providers: Mapping[str, ProviderEntry], within_s: float = WITHIN_S) -> list[EndpointAnswer]:
    """Ask every endpoint that has an address, all at once, each within so many seconds."""
    async with new_session() as session:
        asked = [_ask(session, name, entry.url, within_s) for name, entry in providers.items() if entry.url]
        return list(await asyncio.gather(*asked))


async def _ask(session: aiohttp.ClientSession, provider: str, url: str, within_s: float) -> EndpointAnswer:
    started = time.monotonic()
    try:
        async with asyncio.timeout(within_s):
            async with session.get(url, allow_redirects=False) as response:
                seconds = time.monotonic() - started
                return EndpointAnswer(
                    provider, url, response.status, seconds, http_date(response.headers.get("Date", ""))
                )
    except TimeoutError:
        problem = f"no answer within {within_s:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        problem = one_line(str(error) or type(error).__name__, _MAX_CAUSE)
    return EndpointAnswer(provider, url, None, time.monotonic() - started, problem=problem)


def reachable(answered: EndpointAnswer) -> Finding:
    """Any HTTP answer will do: without a key most vendors refuse."""
    subject = f"{answered.provider}: endpoint"
    if answered.status is None:
        return wrong(
            subject,
            f"{answered.url}: {answered.problem}",
            "check the network, its proxy (HTTPS_PROXY) and firewall, and `url:`",
        )
    seen = f"{answered.url}: HTTP {answered.status} in {answered.seconds * 1000:.0f} ms"
    if 300 <= answered.status < 400:
        return warn(subject, seen, "it redirects, and redirects are not followed: a login page of the network?")
    return (
        warn(subject, seen, "a slow network; calls take as much longer")
        if answered.seconds > _SLOW_S
        else ok(subject, seen)
    )


def keys(provider: str, entry: ProviderEntry) -> Sequence[Finding]:
    """Whether the variables that hold an account's secrets are set; their values are shown nowhere."""
    subject, names = f"{provider}: key", variables_of(entry)
    if not names:
        return [ok(subject, "needs none")]
    missing = [name for name in names if not has_secret(name, os.environ)]
    if missing:
        remedy = "put it into the variable, or into a file that <variable>_FILE names; or leave the models out"
        return [wrong(subject, f"{name} is not set", remedy) for name in missing]
    try:
        endpoint_of(provider, entry, entry.url or "")
    except ConfigError as error:
        cause, _, remedy = str(error).partition("; ")
        return [wrong(subject, cause, remedy)]
    return [ok(subject, f"{' and '.join(names)} set")]
