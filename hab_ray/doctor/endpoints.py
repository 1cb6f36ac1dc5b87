"""Checks whether vendors are reachable, without sending a key, and whether their keys are set, without showing them."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlsplit

import aiohttp

from hab_ray.catalog.addresses import LOOPBACK
from hab_ray.catalog.models import ModelEntry, ProviderEntry
from hab_ray.doctor.findings import Finding, ok, warn, wrong
from hab_ray.errors import CallError
from hab_ray.providers.access import how_to_set, secret_problem, variables_of
from hab_ray.providers.base import NO_KEY
from hab_ray.providers.http import http_date, is_page, json_object, new_session
from hab_ray.visible import one_line

WITHIN_S = 5.0
_SLOW_S = 2.0
_MODELS = "/models"
_MAX_CAUSE, _MAX_NAME, _MAX_LISTED = 160, 80, 8


@dataclass(frozen=True)
class EndpointAnswer:
    """An endpoint's answer to a request without a key, or the `problem`.

    `date` is by the endpoint's clock. `models` are the names that it lists; None if it was not asked or sent no list.
    `sent_page`: its status is 200, but it sent a web page.
    """

    provider: str
    url: str
    status: int | None
    seconds: float
    date: datetime | None = None
    problem: str = ""
    models: tuple[str, ...] | None = None
    sent_page: bool = False


async def ask_all(providers: Mapping[str, ProviderEntry], within_s: float = WITHIN_S) -> list[EndpointAnswer]:
    """Send a request to every endpoint with a URL concurrently, each with a timeout of `within_s` seconds."""
    async with new_session() as session:
        requests = [_ask_provider(session, name, entry, within_s) for name, entry in providers.items() if entry.url]
        return list(await asyncio.gather(*requests))


async def _ask_provider(
    session: aiohttp.ClientSession, name: str, entry: ProviderEntry, within_s: float
) -> EndpointAnswer:
    """Ask an endpoint; if its list of models does not come, as from a proxy that collects it slowly, its URL alone.

    Without a configured key, what calls send in its place is sent.
    """
    url, asked = entry.url or "", _asked_url(entry)
    no_key = {} if variables_of(entry) or entry.kind != "openai" else {"Authorization": f"Bearer {NO_KEY}"}
    answered = await _ask(session, name, asked, no_key, within_s)
    is_silent = answered.status is None and asked != url
    return await _ask(session, name, url, no_key, within_s) if is_silent else answered


def _asked_url(entry: ProviderEntry) -> str:
    """Return the URL of OpenAI's list of models at an endpoint that may give it without a key, else the endpoint's."""
    url = entry.url or ""
    needs_no_key = not variables_of(entry) or urlsplit(url).hostname in LOOPBACK
    return f"{url.rstrip('/')}{_MODELS}" if entry.kind == "openai" and needs_no_key else url


async def _ask(
    session: aiohttp.ClientSession, provider: str, url: str, headers: Mapping[str, str], within_s: float
) -> EndpointAnswer:
    started = time.monotonic()
    try:
        async with asyncio.timeout(within_s), session.get(url, headers=headers, allow_redirects=False) as response:
            date = http_date(response.headers.get("Date", ""))
            answered = EndpointAnswer(provider, url, response.status, time.monotonic() - started, date)
            if response.status != 200:
                return answered
            body = await response.read()
            names = _names(body) if url.endswith(_MODELS) else None
            return replace(answered, models=names, sent_page=is_page(body.decode(errors="replace")))
    except TimeoutError:
        problem = f"no answer within {within_s:g} s"
    except aiohttp.ServerDisconnectedError:  # whose text may be the object of half an answer
        problem = "the connection broke"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        problem = one_line(str(error) or type(error).__name__, _MAX_CAUSE)
    return EndpointAnswer(provider, url, None, time.monotonic() - started, problem=problem)


def _names(body: bytes) -> tuple[str, ...] | None:
    """Return the names in a list of models as OpenAI writes it; None if the endpoint sends something else.

    Ollama writes null for an empty list.
    """
    try:
        return tuple(str(model["id"]) for model in json_object(body)["data"] or ())
    except (CallError, KeyError, TypeError):
        return None


def reachable(answered: EndpointAnswer, entry: ProviderEntry) -> Finding:
    """Return whether an endpoint is reachable. It may refuse a request without a key if the sweep names a key."""
    subject = f"{answered.provider}: endpoint"
    if answered.status is None:
        is_here = urlsplit(answered.url).hostname in LOOPBACK
        start = "start the server on this machine that is to answer there, or correct `url:`"
        network = "check the network, its proxy (HTTPS_PROXY) and firewall, and `url:`"
        return wrong(subject, f"{answered.url}: {answered.problem}", start if is_here else network)
    seen = f"{answered.url} answers in {answered.seconds * 1000:.0f} ms (asked without a key: HTTP {answered.status})"
    if 300 <= answered.status < 400:
        return warn(subject, seen, "it redirects, and redirects are not followed: is it the network's login page?")
    if answered.sent_page:
        remedy = "it sends a web page: is it the login page of the network or of a proxy, or does `url:` lack a part?"
        return warn(subject, seen, remedy)
    if answered.status in (401, 403) and not variables_of(entry):
        remedy = f"if it needs a key, add `key_env: VARIABLE` to `providers.{answered.provider}` and set that variable"
        return warn(subject, seen, remedy)
    if answered.status == 404 and answered.url.endswith(_MODELS):
        return warn(subject, seen, "it has no list of models there: does `url:` lack /v1, or end in /chat/completions?")
    if answered.status >= 500:
        return warn(subject, seen, "the server, or a proxy in front of it, has failed: does the server run?")
    if answered.seconds > _SLOW_S:
        return warn(subject, seen, "the network is slow; every call takes that much longer")
    return ok(subject, seen)


def unlisted(answered: EndpointAnswer, models: Sequence[ModelEntry]) -> Sequence[Finding]:
    """Return a warning about the sweep's models that the endpoint's list lacks. Ollama's adds `:latest` to names."""
    if answered.models is None:
        return []
    listed = (*answered.models, *(name.removesuffix(":latest") for name in answered.models))
    wanted = dict.fromkeys(m.wire for m in models if not any(m.covers(name) for name in listed))
    if not wanted:
        return []
    seen = f"{answered.url} does not list {_some(list(wanted))}"
    remedy = f"correct the names, or load the models at the endpoint; it lists {_some(answered.models) or 'none'}"
    return [warn(f"{answered.provider}: models", seen, remedy)]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(one_line(name, _MAX_NAME) for name in names[:_MAX_LISTED]) + more


def keys(provider: str, entry: ProviderEntry) -> Sequence[Finding]:
    """Return whether the variables of an account's secrets are set; never show their values."""
    subject, names = f"{provider}: key", variables_of(entry)
    if not names:
        return [ok(subject, f"none is configured; calls send {NO_KEY!r} instead")]
    if problems := {name: problem for name in names if (problem := secret_problem(name, os.environ))}:
        others = "or let {}_FILE name a file with it; or leave these models out"
        return [
            wrong(subject, problem, f"{how_to_set(name, 'the key', os.environ)}, {others.format(name)}")
            for name, problem in problems.items()
        ]
    return [ok(subject, f"{' and '.join(names)} set")]
