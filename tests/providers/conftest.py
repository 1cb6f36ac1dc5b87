"""Providers connected to a simulator, or to a server that answers as a test says and keeps what it was sent."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from aiohttp import web

from hab_ray.calls import Answer, ChatCall, Message, Params, Role
from hab_ray.catalog.models import ModelEntry
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint, Exchange, Provider
from hab_simulator.sending import serving
from tests.simulator.conftest import Line, Start, starting

KINDS = ("openai", "anthropic", "google")
KEY = "-".join(["hab", "recognisable", "key", "0123456789abcdef"])
BASE = {"openai": "/openai/v1", "anthropic": "/anthropic", "google": "/google", "xai": "/xai/v1"}
SCHEMA = {
    "type": "object",
    "properties": {
        "zeal": {"type": "string"},
        "issues": {"type": "array", "items": {"type": "string", "enum": ["A", "B"]}},
    },
    "required": ["zeal", "issues"],
    "additionalProperties": False,
}


def chat_call(params: Params | None = None, schema_json: str | None = None, system: str = "", **more: Any) -> ChatCall:
    messages = more.pop("messages", (Message(Role.USER, "Should I sell my house?"),))
    given = {"provider": "p", "model": "m", "as_of": None, **more}
    return ChatCall(**given, system=system, messages=messages, params=params or Params(100), schema_json=schema_json)


def entry(wire: str = "some-model", **more: Any) -> ModelEntry:
    return ModelEntry(provider="p", wire=wire, **more)


@cache
def reader(kind: str) -> Provider:
    """A provider that only reads: it never connects, so that one a vendor is enough."""
    return connect(Endpoint("p", kind, "http://127.0.0.1:1", KEY, 1.0))


async def send(provider: Provider, wire: str = "some-model", **more: Any) -> Exchange:
    """Ask a model, named as the vendor names it, one question."""
    return await provider.send(provider.chat(chat_call(), entry(wire, **more)))


def choice(content: object = "Hello.", reason: str | None = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more}
    usage = {"prompt_tokens": 9, "completion_tokens": 5}
    return {"model": "m-1", "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}


def message(text: str | None = "Hello.", reason: str = "end_turn", **more: Any) -> dict[str, Any]:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    content = [thought] + ([] if text is None else [{"type": "text", "text": text}])
    usage = {"input_tokens": 9, "output_tokens": 5}
    return {"type": "message", "model": "m-1", "content": content, "stop_reason": reason, "usage": usage, **more}


def candidate(text: str | None = "Hello.", reason: str | None = "STOP", **more: Any) -> dict[str, Any]:
    parts = {} if text is None else {"parts": [{"text": "Hm.", "thought": True}, {"text": text}]}
    found = {"content": {"role": "model", **parts}, "finishReason": reason, "index": 0, **more}
    return {"candidates": [found], "modelVersion": "m-1", "usageMetadata": {"promptTokenCount": 9}}


Connect = Callable[..., Provider]


@pytest.fixture
async def provider_of() -> AsyncIterator[Connect]:
    """Connect to a vendor's base path below a URL; closed after the test."""
    opened: list[Provider] = []

    def begin(kind: str, url: str, timeout_s: float = 20.0, key: str = KEY, api_version: str | None = None) -> Provider:
        opened.append(connect(Endpoint("p", kind, url + BASE[kind], key, timeout_s, api_version=api_version)))
        return opened[-1]

    yield begin
    for provider in opened:
        await provider.close()


@pytest.fixture
async def simulate() -> AsyncIterator[Start]:
    async with starting(keep_bodies=True) as begin:
        yield begin


@dataclass
class Script:
    """What a scripted server answers, and the requests it got."""

    url: str = ""
    status: int = 200
    body: str | bytes = "{}"
    headers: dict[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    sent_headers: list[dict[str, str]] = field(default_factory=list)

    def says(self, status: int, body: object, **headers: str) -> None:
        """Answer so from now on; underscores of header names are hyphens."""
        page = isinstance(body, str | bytes)
        self.status, self.body = status, body if isinstance(body, str | bytes) else json.dumps(body)
        self.headers = {"content-type": "text/html" if page else "application/json"}
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        self.paths.append(request.path_qs)
        self.sent_headers.append({name.lower(): value for name, value in request.headers.items()})
        body = self.body.encode() if isinstance(self.body, str) else self.body
        return web.Response(status=self.status, body=body, headers=self.headers)


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    state = Script()
    async with serving(state.handle) as state.url:
        yield state


Hear = Callable[..., Awaitable[Answer]]


@pytest.fixture
def hear(script: Script, provider_of: Connect) -> Hear:
    """Reads the answer of a vendor that says this: `hear(kind, status, body, **headers)`."""

    async def answer(kind: str, status: int, body: object, **headers: str) -> Answer:
        script.says(status, body, **headers)
        provider = provider_of(kind, script.url)
        return provider.read_chat((await send(provider)).body)

    return answer


Play = Callable[..., Awaitable[tuple[Line, Provider]]]


@pytest.fixture
def play(simulate: Start, provider_of: Connect) -> Play:
    """Connects to a vendor whose account is simulated: `play(kind, account)`."""

    async def begin(kind: str, account: object) -> tuple[Line, Provider]:
        line = await simulate(accounts={kind: account})
        return line, provider_of(kind, line.url)

    return begin
