"""OpenAI's protocol, which many other vendors and all local servers speak too.

Source: the OpenAI API reference and the installed SDK. Requests go through the SDK's generic `post`, so that
the body built here is the one sent.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, DefaultAioHttpClient

from hab_ray.calls import Answer, ChatCall, EmbedCall, Finish, Usage, clean_text
from hab_ray.catalog import ModelEntry, Thinking
from hab_ray.errors import (
    CallError,
    FailureKind,
    ModelError,
    ProviderError,
    RateLimited,
    RowError,
    TransientError,
    Unreachable,
)
from hab_ray.providers.base import Endpoint, JsonObject, Wire, malformed

_NO_QUOTA = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_TOO_LONG = {"context_length_exceeded", "string_above_max_length"}
_FINISH = {"stop": Finish.OK, "length": Finish.TRUNCATED, "content_filter": Finish.REFUSED}


class OpenAIProvider:
    """Chat completions and embeddings at one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._client = AsyncOpenAI(
            base_url=endpoint.url,
            api_key=endpoint.key,
            max_retries=0,
            timeout=endpoint.timeout_s,
            http_client=DefaultAioHttpClient(limits=httpx2.Limits(max_connections=None)),
        )

    def chat(self, call: ChatCall, entry: ModelEntry) -> Wire:
        """See Provider."""
        messages = [{"role": "system", "content": clean_text(call.system)}] if call.system else []
        messages += [{"role": str(m.role), "content": clean_text(m.text)} for m in call.messages]
        reserve = 0 if entry.thinking is Thinking.NONE else entry.thinking_reserve
        body: dict[str, Any] = {
            "model": entry.wire,
            "messages": messages,
            entry.output_limit_field: call.params.max_tokens + reserve,
        }
        if call.params.temperature is not None:
            body["temperature"] = call.params.temperature
        if call.params.top_p is not None:
            body["top_p"] = call.params.top_p
        if call.params.effort is not None:
            body["reasoning_effort"] = call.params.effort
        if call.schema_json is not None:
            schema = {"name": "reply", "strict": True, "schema": json.loads(call.schema_json)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return Wire("/chat/completions", body)

    def embed(self, calls: Sequence[EmbedCall], entry: ModelEntry) -> Wire:
        """See Provider."""
        body: dict[str, Any] = {
            "model": entry.wire,
            "input": [clean_text(call.text) for call in calls],
            "encoding_format": "base64",
        }
        if calls[0].dimensions is not None:
            body["dimensions"] = calls[0].dimensions
        return Wire("/embeddings", body)

    async def send(self, wire: Wire) -> JsonObject:
        """See Provider."""
        try:
            response = await self._client.post(wire.path, body=wire.body, cast_to=httpx2.Response)
            body = json.loads(response.content)
        except APIStatusError as error:
            raise classify(error) from None
        except APITimeoutError:
            raise TransientError(FailureKind.TIMEOUT, "no answer within the time limit") from None
        except APIConnectionError as error:
            raise _connection_error(error) from None
        except ValueError as error:
            raise malformed(error) from None
        if not isinstance(body, dict):
            raise malformed("not a JSON object")
        return body

    def read_chat(self, body: JsonObject) -> Answer:
        """See Provider."""
        try:
            choice = body["choices"][0]
            message = choice["message"]
            text, refusal = message.get("content") or "", message.get("refusal")
            return Answer(
                finish=_finish(choice["finish_reason"], text, refusal),
                usage=_usage(body.get("usage") or {}),
                model_reported=str(body.get("model", "")),
                served_by=str(body.get("system_fingerprint") or ""),
                text=refusal or text,
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise malformed(repr(error)) from None

    def read_embeddings(self, body: JsonObject, count: int) -> Answer:
        """See Provider."""
        try:
            by_index = {item["index"]: _vector(item["embedding"]) for item in body["data"]}
            vectors = tuple(by_index[i] for i in range(count))
            usage = Usage(input=int((body.get("usage") or {}).get("prompt_tokens", 0)))
            return Answer(Finish.OK, usage, str(body.get("model", "")), vectors=vectors)
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise malformed(repr(error)) from None

    async def close(self) -> None:
        """See Provider."""
        await self._client.close()


def _finish(reason: str | None, text: str, refusal: str | None) -> Finish:
    if refusal:
        return Finish.REFUSED
    finish = _FINISH.get(reason or "stop", Finish.OK)
    return Finish.EMPTY if finish is Finish.OK and not text.strip() else finish


def _usage(usage: JsonObject) -> Usage:
    """Prompt tokens include the cached ones, completion tokens the reasoning ones."""
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        input=int(usage.get("prompt_tokens") or 0),
        cached=int(prompt.get("cached_tokens") or 0),
        cache_written=int(prompt.get("cache_write_tokens") or 0),
        output=int(usage.get("completion_tokens") or 0),
        reasoning=int(completion.get("reasoning_tokens") or 0),
    )


def _vector(embedding: str | list[float]) -> bytes:
    """A vector as float32 little endian; servers that ignore `encoding_format` send a list."""
    if isinstance(embedding, str):
        return base64.b64decode(embedding, validate=True)
    return np.asarray(embedding, dtype="<f4").tobytes()


def _connection_error(error: APIConnectionError) -> TransientError:
    """Tell an endpoint that cannot be reached from a connection that broke after the request was sent."""
    cause = error.__cause__
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
        return Unreachable(FailureKind.CONNECTION, f"cannot connect: {cause}")
    return TransientError(FailureKind.CONNECTION, f"the connection broke: {type(cause).__name__}")


def classify(error: APIStatusError) -> CallError:
    """What an HTTP error means, by the vendor's error code first and by status second."""
    status, code = error.status_code, str(error.code or error.type or "")
    message = f"HTTP {status} {code}: {error.message}"[:500]
    if code in _NO_QUOTA:
        return ProviderError(FailureKind.NO_QUOTA, message)
    if status == 401:
        return ProviderError(FailureKind.BAD_KEY, message)
    if status in (403, 404):
        return ModelError(FailureKind.MODEL_UNKNOWN, message)
    if code in _TOO_LONG or status == 413:
        return RowError(FailureKind.TOO_LONG, message)
    if status == 429:
        return RateLimited(message, retry_after(error.response.headers))
    if status in (408, 409) or status >= 500:
        kind = FailureKind.OVERLOADED if status in (503, 529) else FailureKind.SERVER
        return TransientError(kind, message)
    return RowError(FailureKind.BAD_REQUEST, message)


def retry_after(headers: httpx2.Headers) -> float | None:
    """The wait a vendor asks for, in seconds; None where it names none."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / scale)
        except (KeyError, ValueError):
            continue
    return None
