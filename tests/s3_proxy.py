"""A proxy before an S3 server that counts requests and makes trouble: for tests and benchmarks."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

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
    seed: int = 0


@dataclass
class Message:
    """An HTTP message: its first line, its headers as they came, and its body."""

    first: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def encoded(self) -> bytes:
        lines = [self.first, *(f"{key}: {value}" for key, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


class S3Proxy:
    """A proxy to the service at a port of this machine. `endpoint` is its own address."""

    def __init__(self, upstream_port: int) -> None:
        self.trouble = Trouble()
        self.seen: list[Seen] = []
        self._upstream_port = upstream_port
        self._random = random.Random(0)
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()
        start = asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result()
        self.endpoint = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        async def end() -> None:
            self._server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def counts(self) -> Counter[str]:
        """How many requests of each kind have arrived."""
        return Counter(seen.kind for seen in self.seen)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        upstream: asyncio.StreamWriter | None = None
        try:
            source, upstream = await asyncio.open_connection("127.0.0.1", self._upstream_port, limit=1 << 20)
            while (request := await _read(reader, writer)) is not None:
                if not await self._relay(request, source, upstream, writer):
                    return
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            for one in (upstream, writer):
                if one:
                    one.close()

    async def _relay(
        self,
        request: Message,
        source: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Answer one request; whether the connection goes on."""
        method, target, _ = request.first.split(" ", 2)
        kind, name = _what(method, target, request)
        self.seen.append(Seen(time.monotonic(), kind, name))
        if self.trouble.dead:
            return False
        if self._random.random() < self.trouble.slow:
            head = f"HTTP/1.1 503 Slow Down\r\nContent-Length: {len(_SLOW_DOWN)}\r\n\r\n".encode()
            writer.write(head + (b"" if method == "HEAD" else _SLOW_DOWN))
            await writer.drain()
            return True
        upstream.write(request.encoded())
        await upstream.drain()
        answer = await _read(source, None, is_answer_to=method)
        if answer is None or self._is_lost(name):
            return False
        writer.write(answer.encoded())
        await writer.drain()
        return True

    def _is_lost(self, name: str) -> bool:
        lost = next((end for end in self.trouble.lost if name.endswith(end)), None)
        self.trouble.lost.discard(lost or "")
        return lost is not None


def _what(method: str, target: str, request: Message) -> tuple[str, str]:
    parts = urlsplit(target)
    query = parse_qs(parts.query)
    name = unquote(parts.path)
    if method == "GET" and "list-type" in query:
        return "LIST", query.get("prefix", [""])[0]
    if method == "POST" and "delete" in parts.query:
        return "DELETE", name
    if method == "PUT" and request.header("x-amz-copy-source"):
        return "COPY", name
    return method, name


async def _read(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None, is_answer_to: str | None = None
) -> Message | None:
    """The next message, a chunked body in one piece; None at the end. `writer` is told to go on where it waits."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    headers = [(key, value.strip()) for key, _, value in (line.partition(":") for line in lines)]
    message = Message(first, headers, b"")
    if writer and (message.header("expect") or "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        message.headers = [(key, value) for key, value in message.headers if key.lower() != "expect"]
    if is_answer_to == "HEAD" or " 204 " in first or " 304 " in first:
        return message
    if (message.header("transfer-encoding") or "").lower() == "chunked":
        message.body = await _chunked(reader)
        message.headers = [(k, v) for k, v in message.headers if k.lower() != "transfer-encoding"]
        message.headers.append(("Content-Length", str(len(message.body))))
    elif length := int(message.header("content-length") or 0):
        message.body = await reader.readexactly(length)
    return message


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass
    return body


@contextlib.contextmanager
def s3_proxy(upstream_port: int) -> Iterator[S3Proxy]:
    """A running proxy to the service at a port of this machine."""
    proxy = S3Proxy(upstream_port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
