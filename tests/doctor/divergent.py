"""A proxy before the simulator that answers otherwise than the simulator does, at chosen places."""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import aiohttp
from aiohttp import web

from hab_simulator.sending import serving


@dataclass(frozen=True)
class Reply:
    """An answer on its way from the simulator."""

    status: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True)
class Divergence:
    """Answers of an account to one kind of request (`verb` is a pattern of "METHOD path") are rewritten.

    `named` is what the doctor must say of it.
    """

    place: str
    verb: str
    rewrite: Callable[[Reply], Reply]
    named: str


def place_of(account: str, path: str, body: bytes) -> str:
    """Which question a request belongs to: `openai online`, `openai malformed` or `openai batch`."""
    if re.search(r"(^|/)(files|batches|upload)\b|batchGenerate", path):
        return f"{account} batch"
    asked = json.loads(body) if body else {}
    messages = asked.get("messages", asked.get("contents", asked.get("input", "some")))
    return f"{account} online" if messages else f"{account} malformed"


@asynccontextmanager
async def diverging(upstream: str, divergences: Sequence[Divergence]) -> AsyncIterator[str]:
    """Serve a simulator's answers, some of them rewritten; gives the proxy's URL."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        content = await request.read()
        account = next(part for part in request.path.split("/") if part not in ("", "x"))
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        async with session.request(request.method, upstream + request.path_qs, data=content, headers=headers) as got:
            kept = {n: v for n, v in got.headers.items() if n.lower() not in ("content-length", "transfer-encoding")}
            reply = Reply(got.status, kept, (await got.read()).decode())
        place = place_of(account, request.path, content)
        for one in divergences:
            if one.place == place and re.search(one.verb, f"{request.method} {request.path}"):
                reply = one.rewrite(reply)
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body.encode())

    async with aiohttp.ClientSession() as session, serving(handle) as url:
        yield url


def in_json(change: Callable[[Any], None]) -> Callable[[Reply], Reply]:
    """A rewriting of each JSON document in a body: one, or one a line."""

    def rewritten(reply: Reply) -> Reply:
        lines = []
        for line in reply.body.split("\n"):
            document = json.loads(line) if line.strip() else None
            if document is not None:
                change(document)
            lines.append(line if document is None else json.dumps(document))
        return replace(reply, body="\n".join(lines))

    return rewritten


def refusing(status: int, body: object) -> Callable[[Reply], Reply]:
    """An error in the place of an answer."""
    return lambda reply: Reply(status, {"Content-Type": "application/json"}, json.dumps(body))


def page(status: int) -> Callable[[Reply], Reply]:
    """A web page in the place of an answer."""
    html = "<!DOCTYPE html><html><body>Attention Required!</body></html>"
    return lambda reply: Reply(status, {"Content-Type": "text/html"}, html)


def without_header(name: str) -> Callable[[Reply], Reply]:
    """The answer less one header."""
    return lambda reply: replace(reply, headers={n: v for n, v in reply.headers.items() if n.lower() != name})


def drawn(random: Random, place: str, verb: str, document: dict[str, Any]) -> Divergence:
    """A divergence drawn at random for answers like this document, which change in one field, or altogether."""
    paths = [path for path in _paths(document, ()) if "metadata" not in path[:-1]]
    kind = random.choice(["drop", "rename", "move", "retype", "page", "refuse"])
    if kind == "page":
        return Divergence(place, verb, page(502), "web page")
    if kind == "refuse":
        return Divergence(place, verb, refusing(418, {"error": {"message": "No such thing."}}), "HTTP 418")
    path = random.choice(paths)
    changes = {
        "drop": lambda parent, name: parent.pop(name),
        "rename": lambda parent, name: parent.__setitem__(f"{name}_2", parent.pop(name)),
        "move": lambda parent, name: parent.__setitem__("inner", {name: parent.pop(name)}),
        "retype": lambda parent, name: parent.__setitem__(
            name, [parent[name]] if isinstance(parent[name], dict) else {}
        ),
    }

    def change(found: Any) -> None:
        parent = found
        for step in path[:-1]:
            parent = parent[step] if isinstance(parent, list) or step in parent else {}
        if isinstance(parent, dict) and path[-1] in parent:
            changes[kind](parent, path[-1])

    return Divergence(place, verb, in_json(change), f"{path[-1]}")


def _paths(value: Any, above: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The places of all fields whose type says something: null may be anything."""
    found = []
    for name, member in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict) and member is not None:
            found.append((*above, name))
        if isinstance(member, dict | list):
            found += _paths(member, (*above, name))
    return found
