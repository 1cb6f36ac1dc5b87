"""A proxy before an S3 server that counts requests and makes trouble: for tests and benchmarks."""

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

import aiohttp
from aiohttp import web
from yarl import URL

_OF_CONNECTIONS = {"connection", "expect", "transfer-encoding"}
_SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


@dataclass(frozen=True)
class Seen:
    """A request that arrived: `kind` is PUT, COPY, GET, HEAD, LIST or DELETE; `name` its key or the listed prefix."""

    at: float
    kind: str
    name: str


@dataclass
class Trouble:
    """What goes wrong. `lost` names are served once each, and their answer is lost; `slow` is a share of requests."""

    lost: set[str] = field(default_factory=set)
    slow: float = 0.0
    dead: bool = False


class S3Proxy:
    """A proxy to the service at a port of this machine. `endpoint` is its own address."""

    def __init__(self, upstream_port: int) -> None:
        self.trouble = Trouble()
        self.seen: list[Seen] = []
        self._upstream = f"http://127.0.0.1:{upstream_port}"
        self._random = random.Random(0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self.endpoint = asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result()

    async def _begin(self) -> str:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def stop(self) -> None:
        async def end() -> None:
            await self._runner.cleanup()
            await self._session.close()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def counts(self) -> Counter[str]:
        """How many requests of each kind have arrived."""
        return Counter(seen.kind for seen in self.seen)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.content.read()
        kind, name = _what(request)
        self.seen.append(Seen(time.monotonic(), kind, name))
        if self.trouble.dead:
            return _broken(request)
        if self._random.random() < self.trouble.slow:
            return web.Response(status=503, reason="Slow Down", body=_SLOW_DOWN)
        url = URL(self._upstream + request.raw_path, encoded=True)
        headers = [(key, value) for key, value in request.headers.items() if key.lower() not in _OF_CONNECTIONS]
        async with self._session.request(
            request.method, url, headers=headers, data=body, skip_auto_headers=("Content-Type",)
        ) as told:
            content = await told.read()
        if self._is_lost(name):
            return _broken(request)
        given = [(key, value) for key, value in told.headers.items() if key.lower() not in _OF_CONNECTIONS]
        return web.Response(status=told.status, reason=told.reason, headers=given, body=content)

    def _is_lost(self, name: str) -> bool:
        lost = next((end for end in self.trouble.lost if name.endswith(end)), None)
        self.trouble.lost.discard(lost or "")
        return lost is not None


def _broken(request: web.Request) -> web.Response:
    """What is not sent: the connection is closed before."""
    assert request.transport
    request.transport.close()
    return web.Response()


def _what(request: web.Request) -> tuple[str, str]:
    name = unquote(request.raw_path.partition("?")[0])
    if request.method == "GET" and "list-type" in request.query:
        return "LIST", request.query.get("prefix", "")
    if request.method == "POST" and "delete" in request.query:
        return "DELETE", name
    if "x-amz-copy-source" in request.headers:
        return "COPY", name
    return request.method, name


@contextlib.contextmanager
def s3_proxy(upstream_port: int) -> Iterator[S3Proxy]:
    """A running proxy to the service at a port of this machine."""
    proxy = S3Proxy(upstream_port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
