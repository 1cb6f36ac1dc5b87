"""Calls a second and CPU a call of the simulator in a process of its own, driven by raw aiohttp.

Run: python benchmarks/simulator.py [calls] [in flight]. One row a kind of call; "server" is the simulator's
own CPU, which bounds what one core can serve.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator

import aiohttp
import psutil

from hab_ray.simulator import Profile, SimulatorProcess

_DEFAULTS = ("10000", "64")
_PADDING = "The landlord says the lease ends in March and my sister wants to move in with two dogs. " * 20
_VERDICT = {
    "type": "object",
    "properties": {
        "assessment": {"type": "string"},
        "issues": {"type": "array", "items": {"type": "string", "enum": ["A", "B", "C", "D"]}},
    },
    "required": ["assessment", "issues"],
    "additionalProperties": False,
}


def _chat(number: int) -> dict[str, object]:
    text = f"Call {number}. {_PADDING}"
    return {"model": "gpt-4.1", "messages": [{"role": "user", "content": text}], "temperature": 0}


def _verdict(number: int) -> dict[str, object]:
    schema = {"name": "verdict", "strict": True, "schema": _VERDICT}
    return _chat(number) | {"response_format": {"type": "json_schema", "json_schema": schema}}


def _message(number: int) -> dict[str, object]:
    text = f"Call {number}. {_PADDING}"
    return {"model": "claude-m", "max_tokens": 1000, "messages": [{"role": "user", "content": text}]}


def _generate(number: int) -> dict[str, object]:
    return {"contents": [{"role": "user", "parts": [{"text": f"Call {number}. {_PADDING}"}]}]}


def _embeddings(number: int) -> dict[str, object]:
    texts = [f"Text {number}-{index}: {_PADDING[:300]}" for index in range(64)]
    return {"model": "text-embedding-3-small", "input": texts, "encoding_format": "base64"}


_KINDS = {
    "openai chat": ("/openai/v1/chat/completions", _chat),
    "openai verdict": ("/openai/v1/chat/completions", _verdict),
    "anthropic message": ("/anthropic/v1/messages", _message),
    "gemini generate": ("/google/v1/models/gemini-m:generateContent", _generate),
    "openai 64 embeddings": ("/openai/v1/embeddings", _embeddings),
}
_HEADERS = {
    "Authorization": "Bearer k",
    "x-goog-api-key": "k",
    "anthropic-version": "2023-06-01",
    "Content-Type": "application/json",
}


async def _drive(session: aiohttp.ClientSession, url: str, bodies: Iterator[bytes]) -> None:
    for body in bodies:
        async with session.post(url, data=body) as response:
            await response.read()
            assert response.status == 200, await response.text()


async def _measure(url: str, bodies: Iterable[bytes], in_flight: int) -> None:
    waiting = iter(bodies)
    connector = aiohttp.TCPConnector(limit=in_flight)
    async with aiohttp.ClientSession(connector=connector, headers=_HEADERS) as session:
        await asyncio.gather(*(_drive(session, url, waiting) for _ in range(in_flight)))


def main() -> None:
    calls, in_flight = (int(text) for text in (*sys.argv[1:], *_DEFAULTS[len(sys.argv) - 1 :]))
    with SimulatorProcess.start(Profile()) as simulator:
        server, client = psutil.Process(simulator.pid), psutil.Process()
        for name, (path, make) in _KINDS.items():
            count = calls // 20 if "embeddings" in name else calls
            bodies = [json.dumps(make(number)).encode() for number in range(count)]
            before = server.cpu_times(), client.cpu_times(), time.perf_counter()
            asyncio.run(_measure(simulator.url + path, bodies, in_flight))
            seconds = time.perf_counter() - before[2]
            own, others = (
                1000 * (now.user + now.system - then.user - then.system) / count
                for now, then in ((server.cpu_times(), before[0]), (client.cpu_times(), before[1]))
            )
            print(
                f"{name:<22} {count:>6} calls {count / seconds:>7.0f}/s   "
                f"server {own:.3f} ms CPU a call ({1000 / own:.0f}/s a core), client {others:.3f} ms"
            )


if __name__ == "__main__":
    main()
