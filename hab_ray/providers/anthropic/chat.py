"""Anthropic's Messages API, and its list of models.

Source: the API reference and the installed SDK (anthropic 2.12). Requests use the SDK's generic `post`, so that the
body built here is the one sent. Since API version 2026-10-21, the SDK's default, no model takes sampling parameters; a
model may name an older `api_version` in the catalogue.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from anthropic import APIConnectionError, APIStatusError, AsyncAnthropic, DefaultAioHttpClient

from hab_ray.calls import Answer, ChatCall, EmbedCall, Finish, Usage, clean_text, has_visible_text
from hab_ray.catalog.models import ModelEntry
from hab_ray.errors import ConfigError
from hab_ray.providers.anthropic.errors import blocked, classify, error_status
from hab_ray.providers.base import (
    Allowance,
    Endpoint,
    Exchange,
    JsonObject,
    ListLimits,
    RateLimits,
    Wire,
    given,
    malformed,
    reading,
)
from hab_ray.providers.http import CheckedClient, Headers, StatusError, allowance, rfc3339, until_s
from hab_ray.providers.model_list import all_names
from hab_ray.providers.numbers import counts_answer, dear_tier, token_count, usage_fields
from hab_ray.providers.sdk import Sdk, SdkAccount

_MODELS_PER_PAGE = 1000
_UNFINISHED = {"max_tokens", "model_context_window_exceeded", "pause_turn", "tool_use"}


class _HttpClient(CheckedClient, DefaultAioHttpClient):
    """The SDK's HTTP client over aiohttp."""


SDK = Sdk(AsyncAnthropic, _HttpClient, APIStatusError, APIConnectionError, classify, error_status)


class AnthropicProvider:
    """Messages at one endpoint."""

    list_limits = ListLimits(texts=1, text_bytes=1)

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._account = SdkAccount(endpoint, SDK)

    def chat(self, call: ChatCall, entry: ModelEntry) -> Wire:
        body: dict[str, Any] = {
            "model": entry.wire,
            "max_tokens": entry.output_limit(call.params.max_tokens),
            "messages": [{"role": str(m.role), "content": clean_text(m.text)} for m in call.messages],
        }
        if call.system:
            body["system"] = clean_text(call.system)
        body |= given(temperature=call.params.temperature, top_p=call.params.top_p)
        output = given(effort=call.params.sent_effort)
        if call.schema_json is not None:
            output["format"] = {"type": "json_schema", "schema": json.loads(call.schema_json)}
        if output:
            body["output_config"] = output
        return Wire("/v1/messages", body, entry.api_version)

    def embed(self, calls: Sequence[EmbedCall], entry: ModelEntry) -> Wire:
        raise ConfigError(
            f"model {entry.wire} of provider {self._endpoint.name}: Anthropic has no embeddings; "
            "set `select.embedding` to a model of another vendor"
        )

    async def send(self, wire: Wire) -> Exchange:
        version = wire.version or self._endpoint.api_version
        headers = {"anthropic-version": version} if version else {}
        try:
            response = await self._account.post(wire.path, wire.encoded, headers)
            body = self._account.read(response)
        except StatusError as refused:
            if blocked(refused.body) is None:
                raise refused.error from None
            return Exchange(refused.body, _rate_limits(refused.headers))
        return Exchange(body, _rate_limits(response.headers))

    def read_chat(self, body: JsonObject) -> Answer:
        reason = blocked(body)
        if reason is not None:
            return Answer(Finish.REFUSED, Usage(), model_reported="", text=reason)
        usage = usage_fields(body, "usage")
        used = _usage(usage)
        with reading():
            text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
            finish = _finish(body["stop_reason"], text)
            explanation = (body.get("stop_details") or {}).get("explanation")
            return Answer(
                finish=finish,
                usage=used,
                model_reported=str(body.get("model") or ""),
                text=str(explanation or text) if finish is Finish.REFUSED else text,
                bill_known=usage.get("output_tokens") is not None and counts_answer(used, text),
                dear_tier=dear_tier(usage.get("service_tier"), usage.get("inference_geo")),
            )

    def read_embeddings(self, body: JsonObject, count: int) -> Answer:
        raise malformed("Anthropic has no embeddings")

    async def close(self) -> None:
        await self._account.close()


def _finish(reason: str | None, text: str) -> Finish:
    if reason == "refusal":
        return Finish.REFUSED
    if reason in _UNFINISHED:
        return Finish.TRUNCATED
    return Finish.OK if has_visible_text(text) else Finish.EMPTY


def _usage(usage: JsonObject) -> Usage:
    """Read token counts. `input_tokens` excludes cache reads and writes; `output_tokens` includes thinking."""
    read = token_count(usage, "cache_read_input_tokens")
    written = token_count(usage, "cache_creation_input_tokens")
    return Usage(
        input=token_count(usage, "input_tokens") + read + written,
        cached=read,
        cache_written=written,
        output=token_count(usage, "output_tokens"),
        reasoning=token_count(usage_fields(usage, "output_tokens_details"), "thinking_tokens"),
    )


def _rate_limits(headers: Headers) -> RateLimits | None:
    """Read the `anthropic-ratelimit-*` headers; without a limit on all tokens, use the one on input tokens."""
    requests = _allowance(headers, "requests")
    tokens = _allowance(headers, "tokens") or _allowance(headers, "input-tokens")
    return RateLimits(requests, tokens) if requests or tokens else None


def _allowance(headers: Headers, unit: str) -> Allowance | None:
    prefix = f"anthropic-ratelimit-{unit}"
    reset_s = until_s(rfc3339(headers.get(f"{prefix}-reset")), headers)
    return allowance(headers.get(f"{prefix}-limit"), headers.get(f"{prefix}-remaining"), reset_s)


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """Return the models of the key, from GET /v1/models, without those marked as retired."""
    account = SdkAccount(endpoint, SDK)

    async def page_after(last: str | None) -> tuple[Iterable[object], object]:
        query = {"limit": _MODELS_PER_PAGE} | ({"after_id": last} if last else {})
        body = account.read(await account.get("/v1/models", query))
        names = [model["id"] for model in body["data"] if model.get("lifecycle") != "retired"]
        return names, body["last_id"] if body.get("has_more") else None

    return await all_names(page_after, account.close)
