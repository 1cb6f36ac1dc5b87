"""OpenAI's protocol, which many other vendors and all local servers use too.

Source: the OpenAI API reference and the installed SDK. Requests use the SDK's generic `post`, so that the body built
here is the one sent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAioHttpClient

from hab_ray.calls import Answer, ChatCall, EmbedCall, Finish, Usage, clean_text, has_visible_text
from hab_ray.catalog.models import ModelEntry
from hab_ray.errors import FailureKind, TransientError
from hab_ray.providers.base import (
    Allowance,
    Endpoint,
    Exchange,
    JsonObject,
    ListLimits,
    RateLimits,
    Wire,
    given,
    reading,
)
from hab_ray.providers.http import CheckedClient, Headers, StatusError, allowance, duration_s
from hab_ray.providers.numbers import counts_answer, dear_tier, stated_nanousd, token_count, usage_fields, vector
from hab_ray.providers.openai.errors import blocked, classify, cut_off, error_status, is_answer
from hab_ray.providers.sdk import Sdk, SdkAccount

_FINISH = {
    "stop": Finish.OK,
    "length": Finish.TRUNCATED,
    "model_length": Finish.TRUNCATED,  # Mistral
    "model_context_window_exceeded": Finish.TRUNCATED,  # Zhipu
    "content_filter": Finish.REFUSED,
    "sensitive": Finish.REFUSED,  # Zhipu
}
# OpenRouter and Mistral, vLLM, DeepSeek, Zhipu
_ABORTED = {"error", "abort", "insufficient_system_resource", "network_error"}


class _HttpClient(CheckedClient, DefaultAioHttpClient):
    """The SDK's HTTP client over aiohttp."""


SDK = Sdk(AsyncOpenAI, _HttpClient, APIStatusError, APIConnectionError, classify, error_status)


class OpenAIProvider:
    """Chat completions and embeddings at one endpoint."""

    # 2,048 texts and 300,000 tokens per request, at two bytes per token: English has four, and a list that is too long
    # nevertheless is sent again text by text.
    list_limits = ListLimits(texts=2048, text_bytes=600_000)

    def __init__(self, endpoint: Endpoint) -> None:
        self._account = SdkAccount(endpoint, SDK)

    def chat(self, call: ChatCall, entry: ModelEntry) -> Wire:
        messages = [{"role": "system", "content": clean_text(call.system)}] if call.system else []
        messages += [{"role": str(m.role), "content": clean_text(m.text)} for m in call.messages]
        body: dict[str, Any] = {
            "model": entry.wire,
            "messages": messages,
            entry.output_limit_field: entry.output_limit(call.params.max_tokens),
        }
        wanted = call.params
        body |= given(temperature=wanted.temperature, top_p=wanted.top_p, reasoning_effort=wanted.sent_effort)
        if call.schema_json is not None:
            schema = {"name": "reply", "strict": True, "schema": json.loads(call.schema_json)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return Wire("/chat/completions", body)

    def embed(self, calls: Sequence[EmbedCall], entry: ModelEntry) -> Wire:
        texts = [clean_text(call.text) for call in calls]
        body = {"model": entry.wire, "input": texts, "encoding_format": "base64"}
        return Wire("/embeddings", body | given(dimensions=calls[0].dimensions))

    async def send(self, wire: Wire) -> Exchange:
        try:
            response = await self._account.post(wire.path, wire.encoded)
            body = self._account.read(response)
        except StatusError as refused:
            if not is_answer(refused.body):
                raise refused.error from None
            return Exchange(refused.body, _rate_limits(refused.headers))
        return Exchange(body, _rate_limits(response.headers))

    def read_chat(self, body: JsonObject) -> Answer:
        reason = blocked(body)
        if reason is not None:
            return Answer(Finish.REFUSED, Usage(), model_reported="", text=reason)
        usage = usage_fields(body, "usage")
        used, stated = self.read_usage(usage), stated_nanousd(usage)
        if cut_off(body):
            return Answer(Finish.TRUNCATED, used, "", stated_nanousd=stated, bill_known=_states_bill(usage, used, ""))
        with reading():
            choice = body["choices"][0]
            _refuse_aborted(choice)
            message = _message(choice)
            text, refusal = _text(message.get("content")), _text(message.get("refusal"))
            return Answer(
                finish=_finish(choice.get("finish_reason"), text, refusal),
                usage=used,
                model_reported=str(body.get("model") or ""),
                served_by=str(body.get("provider") or body.get("system_fingerprint") or ""),
                text=refusal or text,
                stated_nanousd=stated,
                bill_known=_states_bill(usage, used, refusal or text),
                dear_tier=dear_tier(body.get("service_tier")),
            )

    def read_embeddings(self, body: JsonObject, count: int) -> Answer:
        usage = usage_fields(body, "usage")
        used, stated = Usage(input=token_count(usage, "prompt_tokens")), stated_nanousd(usage)
        with reading():
            by_index = {item["index"]: vector(item["embedding"]) for item in body["data"]}
            vectors = tuple(by_index[i] for i in range(count))
        name, known = str(body.get("model") or ""), used.input > 0
        return Answer(Finish.OK, used, name, vectors=vectors, stated_nanousd=stated, bill_known=known)

    def read_usage(self, fields: JsonObject) -> Usage:
        """Read the token counts of a response; subclasses may count differently.

        Completion tokens include reasoning, except behind a gateway to xAI. The sums reveal that: the total adds
        reasoning on top, or there is more reasoning than completion.
        """
        used = tokens_counted(fields)
        is_on_top = token_count(fields, "total_tokens") == used.input + used.output + used.reasoning
        return reasoning_on_top(used) if used.reasoning and (is_on_top or used.reasoning > used.output) else used

    async def close(self) -> None:
        await self._account.close()


def tokens_counted(fields: JsonObject) -> Usage:
    """Read token counts as stated; prompt tokens include the cached ones."""
    prompt, parts = usage_fields(fields, "prompt_tokens_details"), usage_fields(fields, "completion_tokens_details")
    return Usage(
        input=token_count(fields, "prompt_tokens"),
        cached=token_count(prompt, "cached_tokens"),
        cache_written=token_count(prompt, "cache_write_tokens"),
        output=token_count(fields, "completion_tokens"),
        reasoning=token_count(parts, "reasoning_tokens"),
    )


def _states_bill(usage: JsonObject, used: Usage, text: str) -> bool:
    """Return whether both counts are stated: without one, an answer would be booked at part of its cost."""
    return usage.get("completion_tokens") is not None and counts_answer(used, text)


def reasoning_on_top(used: Usage) -> Usage:
    """Return the usage for a vendor that bills reasoning in addition to the completion tokens."""
    return replace(used, output=used.output + used.reasoning)


def _message(choice: JsonObject) -> JsonObject:
    """Return a choice's message, empty if it is missing from a filtered answer, as at Azure; else raise KeyError."""
    return {} if choice.get("finish_reason") == "content_filter" and not choice.get("message") else choice["message"]


def _text(content: object) -> str:
    """Return a message's text, or the text parts of a list without thoughts (Mistral's reasoning models).

    Raises:
        TypeError: the content is neither.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError(f"content is a {type(content).__name__}")
    return "".join(part["text"] for part in content if part["type"] == "text")


def _refuse_aborted(choice: JsonObject) -> None:
    """Refuse a choice whose text is incomplete.

    Raises:
        TransientError: the server behind a gateway aborted; OpenRouter says why beside the text, whatever the reason.
    """
    reason, error = choice.get("finish_reason"), choice.get("error")
    if error or reason in _ABORTED:
        why = error.get("message") if isinstance(error, Mapping) else error
        raise TransientError(FailureKind.SERVER, f"the server aborted the answer ({why or f'finish_reason {reason}'})")


def _finish(reason: str | None, text: str, refusal: str) -> Finish:
    """Return how a choice ended. Unknown reasons of compatible servers count as a normal end."""
    if refusal:
        return Finish.REFUSED
    finish = _FINISH.get(reason or "stop", Finish.OK)
    return Finish.EMPTY if finish is Finish.OK and not has_visible_text(text) else finish


def _rate_limits(headers: Headers) -> RateLimits | None:
    """Read the `x-ratelimit-*` headers: resets are Go durations; Mistral's names end in `minute` and have no reset."""
    named = dict(headers.items())
    requests = _allowance(named, "requests") or _allowance(named, "req-minute")
    tokens = _allowance(named, "tokens") or _allowance(named, "tokens-minute")
    return RateLimits(requests, tokens) if requests or tokens else None


def _allowance(headers: Headers, unit: str) -> Allowance | None:
    return allowance(
        headers.get(f"x-ratelimit-limit-{unit}"),
        headers.get(f"x-ratelimit-remaining-{unit}"),
        duration_s(headers.get(f"x-ratelimit-reset-{unit}")),
    )
