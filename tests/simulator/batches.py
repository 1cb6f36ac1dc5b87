"""Clients of the batch half: the vendors' SDKs in strict mode, and small batches."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterable
from typing import Any, Literal

import anthropic
import openai
from anthropic.types.messages import MessageBatch
from google import genai
from google.genai import types
from openai.types import Batch

from tests.simulator.conftest import Line

CHAT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
PRICES = {"*": {"price": {"input": "2", "output": "8"}}}
SOON = {"turnaround": {"kind": "fixed", "value_s": 0.1}}
ENDED = ("failed", "completed", "expired", "cancelled")
_PAUSE_S = 0.02


def openai_client(line: Line, account: str = "openai") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        api_key="k", base_url=f"{line.url}/{account}/v1", max_retries=0, _strict_response_validation=True
    )


def anthropic_client(line: Line) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        api_key="k", base_url=line.url + "/anthropic", max_retries=0, _strict_response_validation=True
    )


def google_client(line: Line) -> genai.Client:
    """Without `attempts=1` the SDK would send a create request again when its connection breaks."""
    options = types.HttpOptions(base_url=line.url + "/google", retry_options=types.HttpRetryOptions(attempts=1))
    return genai.Client(api_key="k", http_options=options)


def chat(number: int, model: str = "gpt-4.1") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": f"question {number}"}]}


def params(number: int) -> dict[str, Any]:
    return chat(number, "claude-sonnet-4-5") | {"max_tokens": 300}


def contents(number: int) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": f"question {number}"}]}]}


def openai_line(number: int, body: dict[str, Any] | None = None, url: str = CHAT) -> dict[str, Any]:
    return {"custom_id": f"c{number}", "method": "POST", "url": url, "body": body or chat(number)}


def jsonl(lines: Iterable[object]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def parsed(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.split(b"\n") if line]


async def submit_openai(
    client: openai.AsyncOpenAI, lines: Iterable[object], endpoint: Any = CHAT, metadata: Any = None
) -> Batch:
    file = await client.files.create(file=("requests.jsonl", jsonl(lines)), purpose="batch")
    return await client.batches.create(
        completion_window="24h", endpoint=endpoint, input_file_id=file.id, metadata=metadata
    )


async def run_openai(client: openai.AsyncOpenAI, lines: Iterable[object], endpoint: Any = CHAT) -> Batch:
    return await end_openai(client, (await submit_openai(client, lines, endpoint)).id)


async def end_openai(client: openai.AsyncOpenAI, name: str) -> Batch:
    async with asyncio.timeout(20):
        while (batch := await client.batches.retrieve(name)).status not in ENDED:
            await asyncio.sleep(_PAUSE_S)
        return batch


async def content(client: openai.AsyncOpenAI, name: str | None) -> list[dict[str, Any]]:
    return parsed((await client.files.content(name)).content) if name else []


async def submit_anthropic(client: anthropic.AsyncAnthropic, count: int) -> MessageBatch:
    return await client.messages.batches.create(
        requests=[{"custom_id": f"c{number}", "params": params(number)} for number in range(count)],  # type: ignore[typeddict-item]
        extra_headers={"anthropic-version": "2023-06-01"},
    )


async def end_anthropic(client: anthropic.AsyncAnthropic, name: str) -> MessageBatch:
    async with asyncio.timeout(20):
        while (batch := await client.messages.batches.retrieve(name)).processing_status != "ended":
            await asyncio.sleep(_PAUSE_S)
        return batch


async def results(client: anthropic.AsyncAnthropic, name: str) -> dict[str, Any]:
    return {one.custom_id: one.result async for one in await client.messages.batches.results(name)}


async def upload(client: genai.Client, lines: Iterable[object]) -> str:
    config = types.UploadFileConfig(mime_type="application/jsonl", display_name="requests")
    file = await client.aio.files.upload(file=io.BytesIO(jsonl(lines)), config=config)
    assert file.name
    return file.name


async def submit_google(client: genai.Client, count: int, tag: str = "tag") -> types.BatchJob:
    lines = ({"key": f"c{number}", "request": contents(number)} for number in range(count))
    name = await upload(client, lines)
    return await client.aio.batches.create(model="gemini-3.8-flash", src=name, config={"display_name": tag})


async def end_google(client: genai.Client, name: str | None) -> types.BatchJob:
    assert name
    async with asyncio.timeout(20):
        while not (job := await client.aio.batches.get(name=name)).done:
            await asyncio.sleep(_PAUSE_S)
        return job


async def google_results(client: genai.Client, job: types.BatchJob) -> list[dict[str, Any]]:
    assert job.dest and job.dest.file_name
    return parsed(await client.aio.files.download(file=job.dest.file_name))
