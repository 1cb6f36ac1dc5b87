"""CPU a call of each vendor's provider, with 300 calls in flight against a trivial server in another process.

Run: python benchmarks/provider_cpu.py [calls] [in flight]. The server answers with a fixed body after 0.3 s. "ms a
call" is the CPU of this process alone, builder and parser included: what a lane pays for one call without the
engine around it. The second column is the same without the SDK (aiohttp alone), for comparison.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

import aiohttp
from aiohttp import web

from hab_ray.calls import ChatCall, Finish, Message, Params, Role
from hab_ray.catalog.models import ModelEntry
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint, Provider

_DEFAULTS = ("6000", "300")
_LATENCY_S = 0.3
_PROMPT = "The landlord says the lease ends in March and my sister wants to move in with two dogs. " * 10
_ANSWER = "You could first ask your sister how long she means to stay. " * 15
_BODIES: dict[str, dict[str, Any]] = {
    "openai": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": _ANSWER}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 200, "completion_tokens": 180, "total_tokens": 380},
    },
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "model": "m",
        "content": [{"type": "text", "text": _ANSWER}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 200, "output_tokens": 180},
    },
    "google": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": _ANSWER}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 200, "candidatesTokenCount": 180},
        "modelVersion": "m",
    },
}


def _serve(ready: Connection) -> None:
    bodies = {f"/{kind}": json.dumps(body).encode() for kind, body in _BODIES.items()}

    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        await asyncio.sleep(_LATENCY_S)
        body = bodies["/" + request.path.split("/")[1]]
        return web.Response(body=body, content_type="application/json")

    async def run() -> None:
        runner = web.ServerRunner(web.Server(answer, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


async def _cpu_ms(send: Callable[[], Awaitable[None]], calls: int, in_flight: int) -> float:
    """CPU milliseconds a call, after a warm-up that opens all connections."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await send()

    await asyncio.gather(*(send() for _ in range(in_flight)))
    begun = time.process_time()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return (time.process_time() - begun) * 1000 / calls


def _through(provider: Provider) -> Callable[[], Awaitable[None]]:
    model = ModelEntry(provider="p", wire="m")
    call = ChatCall("p", "m", None, "Answer in 150 words.", (Message(Role.USER, _PROMPT),), Params(1000, 0.0))

    async def send() -> None:
        answer = provider.read_chat((await provider.send(provider.chat(call, model))).body)
        assert answer.finish is Finish.OK and answer.text == _ANSWER

    return send


async def _measure(url: str, calls: int, in_flight: int) -> None:
    print(f"{calls} calls, {in_flight} in flight")
    print(f"{'vendor':<12}{'ms a call':>10}{'aiohttp':>10}")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for kind in _BODIES:
            provider = connect(Endpoint(kind, kind, f"{url}/{kind}", "a-key-of-no-use", 60.0))

            async def bare(path: str = f"{url}/{kind}") -> None:
                async with session.post(path, json={"prompt": _PROMPT}) as response:
                    assert await response.json()

            cost = await _cpu_ms(_through(provider), calls, in_flight)
            print(f"{kind:<12}{cost:>10.2f}{await _cpu_ms(bare, calls, in_flight):>10.2f}", flush=True)
            await provider.close()


def main() -> None:
    calls, in_flight = (int(word) for word in (sys.argv[1:] + list(_DEFAULTS[len(sys.argv) - 1 :]))[:2])
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        asyncio.run(_measure(f"http://127.0.0.1:{ours.recv()}", calls, in_flight))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
