"""Clients of the batch half: the vendors' SDKs in strict mode, and small batches."""

import asyncio
import io
import json
from collections.abc import Iterable
from typing import Any, Literal

import anthropic
import openai
from anthropic.types import MessageParam
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
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


def closed(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties, which strict mode takes."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def formatted(schema: Any, strict: bool = True) -> dict[str, Any]:
    """A schema as the response format of a chat call."""
    return {"type": "json_schema", "json_schema": {"name": "v", "strict": strict, "schema": schema}}


SCHEMA = closed(issues={"type": "array", "items": {"type": "string", "enum": ["A", "B"]}})


def chat(number: int, model: str = "gpt-4.1") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": f"question {number}"}]}


def params(number: int) -> MessageCreateParamsNonStreaming:
    messages: list[MessageParam] = [{"role": "user", "content": f"question {number}"}]
    return {"model": "claude-sonnet-4-5", "max_tokens": 300, "messages": messages}


def contents(number: int) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": f"question {number}"}]}]}


def openai_line(number: int, body: dict[str, Any] | None = None, url: str = CHAT) -> dict[str, Any]:
    return {"custom_id": f"c{number}", "method": "POST", "url": url, "body": body or chat(number)}


def jsonl(lines: Iterable[object]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def parsed(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.split(b"\n") if line]


class OpenAiClient(openai.AsyncOpenAI):
    """OpenAI's SDK in strict mode, and its batches from the upload to the results."""

    def __init__(self, line: Line, base: str = "/openai/v1", *, is_strict: bool = True) -> None:
        super().__init__(api_key="k", base_url=line.url + base, max_retries=0, _strict_response_validation=is_strict)

    async def submit(self, lines: Iterable[object], endpoint: Any = CHAT, metadata: Any = None) -> Batch:
        file = await self.files.create(file=("requests.jsonl", jsonl(lines)), purpose="batch")
        return await self.batches.create(
            completion_window="24h", endpoint=endpoint, input_file_id=file.id, metadata=metadata
        )

    async def run(self, lines: Iterable[object], endpoint: Any = CHAT, metadata: Any = None) -> Batch:
        return await self.end((await self.submit(lines, endpoint, metadata)).id)

    async def end(self, name: str) -> Batch:
        async with asyncio.timeout(20):
            while (batch := await self.batches.retrieve(name)).status not in ENDED:
                await asyncio.sleep(_PAUSE_S)
            return batch

    async def content(self, name: str | None) -> list[dict[str, Any]]:
        return parsed((await self.files.content(name)).content) if name else []


class AnthropicClient(anthropic.AsyncAnthropic):
    """Anthropic's SDK in strict mode, and its batches from the create request to the results."""

    def __init__(self, line: Line, version: str = "2026-10-21") -> None:
        super().__init__(
            api_key="k",
            base_url=line.url + "/anthropic",
            max_retries=0,
            default_headers={"anthropic-version": version},
            _strict_response_validation=True,
        )

    async def submit(self, count: int) -> MessageBatch:
        return await self.messages.batches.create(
            requests=[{"custom_id": f"c{number}", "params": params(number)} for number in range(count)],
            extra_headers={"anthropic-version": "2023-06-01"},
        )

    async def run(self, count: int) -> MessageBatch:
        return await self.end((await self.submit(count)).id)

    async def end(self, name: str) -> MessageBatch:
        async with asyncio.timeout(20):
            while (batch := await self.messages.batches.retrieve(name)).processing_status != "ended":
                await asyncio.sleep(_PAUSE_S)
            return batch

    async def results(self, name: str) -> dict[str, Any]:
        return {one.custom_id: one.result async for one in await self.messages.batches.results(name)}


class GoogleClient(genai.Client):
    """Google's SDK, and its batches from the upload to the results."""

    def __init__(self, line: Line) -> None:
        """Without `attempts=1` the SDK would send a create request again when its connection breaks."""
        options = types.HttpOptions(base_url=line.url + "/google", retry_options=types.HttpRetryOptions(attempts=1))
        super().__init__(api_key="k", http_options=options)

    async def upload(self, lines: Iterable[object]) -> str:
        config = types.UploadFileConfig(mime_type="application/jsonl", display_name="requests")
        file = await self.aio.files.upload(file=io.BytesIO(jsonl(lines)), config=config)
        return str(file.name)

    async def submit(self, count: int, tag: str = "tag") -> types.BatchJob:
        name = await self.upload({"key": f"c{number}", "request": contents(number)} for number in range(count))
        return await self.aio.batches.create(model="gemini-3.8-flash", src=name, config={"display_name": tag})

    async def run(self, count: int, tag: str = "tag") -> types.BatchJob:
        return await self.end((await self.submit(count, tag)).name)

    async def end(self, name: str | None) -> types.BatchJob:
        async with asyncio.timeout(20):
            while not (job := await self.aio.batches.get(name=str(name))).done:
                await asyncio.sleep(_PAUSE_S)
            return job

    async def results(self, job: types.BatchJob) -> list[dict[str, Any]]:
        assert job.dest and job.dest.file_name
        return parsed(await self.aio.files.download(file=job.dest.file_name))
