"""The server's process: loads the models and serves OpenAI's three endpoints, routed by model name.

Chat requests are forwarded unchanged to the model's llama.cpp server, at most two per slot at a time. The rest wait
here, because each connection, idle or not, holds a thread of llama.cpp's HTTP server. A client that disconnects cancels
its generation.
"""

import asyncio
import base64
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import aiohttp
from aiohttp import web
from pydantic import BaseModel, Field, ValidationError

from hab_ray.local.chat import ChatModel, load_chat
from hab_ray.local.embed import Embedded, Embedder, Vector
from hab_ray.local.server import TOKEN

_BODY_LIMIT = 64 * 2**20
_MAX_SHOWN = 300
_UPSTREAM = web.AppKey("upstream", aiohttp.ClientSession)
_Text = Annotated[str, Field(min_length=1)]


class _ChatRequest(BaseModel):
    model: str
    messages: list[object] = Field(min_length=1)
    stream: Literal[False] = False


class _EmbeddingsRequest(BaseModel):
    model: str
    input: _Text | Annotated[list[_Text], Field(min_length=1, max_length=2048)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Literal[64, 128, 256] = 256


_Request = TypeVar("_Request", bound=BaseModel)


class Front:
    """The endpoints of loaded models."""

    def __init__(self, chat: Mapping[str, ChatModel], embedders: Mapping[str, Embedder], slots: int) -> None:
        """Serve models by the names in requests; each chat model was loaded with `slots`."""
        self._chat = chat
        self._embedders = embedders
        self._permits = {name: asyncio.Semaphore(2 * slots) for name in chat}

    def application(self, token: str) -> web.Application:
        """Return the aiohttp application; all its paths begin with the token."""
        app = web.Application(client_max_size=_BODY_LIMIT)
        app.cleanup_ctx.append(_upstream)
        app.router.add_post(f"/{token}/v1/chat/completions", self._complete)
        app.router.add_post(f"/{token}/v1/embeddings", self._embed)
        app.router.add_get(f"/{token}/v1/models", self._models)
        return app

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.read()
        asked = _parsed(_ChatRequest, body)
        model = self._chat.get(asked.model)
        if model is None:
            raise _unknown_model(asked.model, self._chat)
        headers = {"Authorization": f"Bearer {model.key}", "Content-Type": "application/json"}
        url = f"{model.url}/v1/chat/completions"
        async with (
            self._permits[asked.model],
            request.app[_UPSTREAM].post(url, data=body, headers=headers) as upstream,
        ):
            answer = await upstream.read()
        if upstream.status != 200:
            return web.json_response(_as_openai_error(upstream.status, answer), status=upstream.status)
        return web.Response(body=answer, content_type="application/json")

    async def _embed(self, request: web.Request) -> web.Response:
        asked = _parsed(_EmbeddingsRequest, await request.read())
        embedder = self._embedders.get(asked.model)
        if embedder is None:
            raise _unknown_model(asked.model, self._embedders)
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        embedded = await asyncio.to_thread(embedder.embed, texts, asked.dimensions)
        return web.json_response(_embeddings_body(asked, embedded))

    async def _models(self, request: web.Request) -> web.Response:
        names = [*self._chat, *self._embedders]
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "local"} for name in names]
        return web.json_response({"object": "list", "data": data})


async def _upstream(app: web.Application) -> AsyncIterator[None]:
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
        app[_UPSTREAM] = session
        yield


def _parsed(kind: type[_Request], body: bytes) -> _Request:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise _refusal(web.HTTPBadRequest, f"{field}: {first['msg']}", None, field) from None


def _unknown_model(name: str, known: Mapping[str, object]) -> web.HTTPException:
    served = ", ".join(known) or "none"
    message = f"The model {name!r} does not exist at this endpoint; it serves: {served}"
    return _refusal(web.HTTPNotFound, message, "model_not_found", "model")


def _refusal(kind: type[web.HTTPException], message: str, code: str | None, param: str) -> web.HTTPException:
    return kind(text=json.dumps(_error_body(message, code, param)), content_type="application/json")


def _error_body(message: str, code: str | None, param: str | None) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def _as_openai_error(status: int, answer: bytes) -> dict[str, object]:
    """Translate llama.cpp's error: its `code` is the HTTP status, and a prompt that is too long is a `type`.

    Errors of its HTTP library are plain text or empty; the status alone tells whether to ask again.
    """
    try:
        error = json.loads(answer)["error"]
        kind, message = error["type"], error["message"]
    except (ValueError, KeyError, TypeError):
        shown = answer.decode(errors="replace").strip()[:_MAX_SHOWN]
        kind, message = None, f"llama.cpp answered HTTP {status}: {shown or 'no text'}"
    if kind == "exceed_context_size_error":
        return _error_body(message, "context_length_exceeded", None)
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _embeddings_body(asked: _EmbeddingsRequest, embedded: Embedded) -> dict[str, object]:
    def encoded(vector: Vector) -> str | list[float]:
        if asked.encoding_format == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
        return [float(x) for x in vector]

    data = [
        {"object": "embedding", "index": i, "embedding": encoded(vector)} for i, vector in enumerate(embedded.vectors)
    ]
    usage = {"prompt_tokens": embedded.tokens, "total_tokens": embedded.tokens}
    return {"object": "list", "model": asked.model, "data": data, "usage": usage}


async def serve(chat: Mapping[str, Path], embeddings: Sequence[str], slots: int, listener: socket.socket) -> None:
    """Serve on a listening socket and print the URL as the first line of standard output.

    The URL contains a secret token; requests without it get a 404. Raise LocalError if a model cannot be loaded.
    """
    announce = _redirect_stdout()
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    models = {name: load_chat(name, path, slots, threads) for name, path in chat.items()}
    embedders = {name: Embedder(name) for name in embeddings}
    front = Front(models, embedders, slots)
    token = os.environ.pop(TOKEN)
    runner = web.AppRunner(front.application(token), handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    host, port = runner.addresses[0][:2]
    os.write(announce, f"http://{host}:{port}/{token}/v1\n".encode())
    await asyncio.Event().wait()


def _redirect_stdout() -> int:
    """Return a descriptor of stdout, and redirect what libraries print there to stderr, which is the log."""
    sys.stdout.flush()
    announce = os.dup(1)
    os.dup2(2, 1)
    return announce
