"""Serving HTTP, and sending an answer as the fault of the call allows."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from hab_simulator.asks import WireAnswer, compact
from hab_simulator.faults import Fault, HangFault, ResetFault, SlowFault, TruncatedFault

_JSON = {"Content-Type": "application/json"}
_PIECES = 10
_PIECE_BYTES = 65_536
_HANG_POLL_S = 0.1
_DISCARD = struct.pack("ii", 1, 0)


@asynccontextmanager
async def serving(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[str]:
    """Serve in this event loop, on a port of a host (0: a free one); gives the URL."""
    runner = web.ServerRunner(web.Server(handle, access_log=None), handle_signals=False, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=4096).start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def response(answer: WireAnswer) -> web.Response:
    """A whole answer."""
    return web.Response(status=answer.status, body=answer.body, headers={**_JSON, **answer.headers})


def json_response(body: object, status: int = 200) -> web.Response:
    """A whole answer of JSON."""
    return response(WireAnswer(status, compact(body)))


async def send(request: web.BaseRequest, answer: WireAnswer, fault: Fault | None) -> web.StreamResponse:
    """Send the answer, or what the fault leaves of it."""
    match fault:
        case ResetFault():
            return send_reset(request)
        case HangFault():
            while request.transport is not None:
                await asyncio.sleep(_HANG_POLL_S)
            return web.Response()
        case TruncatedFault():
            return await send_half(request, answer)
        case SlowFault():
            return await _send_slowly(request, answer, fault.seconds)
        case _:
            return response(answer)


def send_reset(request: web.BaseRequest) -> web.Response:
    """End the connection with RST instead of FIN, and an answer that goes nowhere."""
    if transport := request.transport:
        if sock := transport.get_extra_info("socket"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
        transport.abort()
    return web.Response()


async def send_half_file(request: web.BaseRequest, path: Path, content_type: str) -> web.StreamResponse:
    """The first half of a file under the Content-Length of the whole."""
    begun = web.StreamResponse(headers={"Content-Type": content_type})
    begun.content_length = path.stat().st_size
    await begun.prepare(request)
    left = begun.content_length // 2
    with path.open("rb") as file:
        while left and (piece := file.read(min(left, _PIECE_BYTES))):
            await begun.write(piece)
            left -= len(piece)
    if request.transport is not None:
        request.transport.close()
    return begun


async def _begin(request: web.BaseRequest, answer: WireAnswer) -> web.StreamResponse:
    begun = web.StreamResponse(status=answer.status, headers={**_JSON, **answer.headers})
    begun.content_length = len(answer.body)
    await begun.prepare(request)
    return begun


async def send_half(request: web.BaseRequest, answer: WireAnswer) -> web.StreamResponse:
    """The first half of an answer under the Content-Length of the whole."""
    begun = await _begin(request, answer)
    await begun.write(answer.body[: len(answer.body) // 2])
    if request.transport is not None:
        request.transport.close()
    return begun


async def _send_slowly(request: web.BaseRequest, answer: WireAnswer, seconds: float) -> web.StreamResponse:
    begun = await _begin(request, answer)
    size = -(-len(answer.body) // _PIECES)
    for start in range(0, len(answer.body), size):
        await asyncio.sleep(seconds / _PIECES)
        await begun.write(answer.body[start : start + size])
    await begun.write_eof()
    return begun
