"""Google's Gemini Developer API.

Source: the API reference and the installed SDK (google-genai 3.4). Requests go through the SDK's API client,
not its typed methods: those rename and add fields, so that a batch line would differ from the body sent online,
and refuse answers with a field they do not know. `attempts=1` is needed although the SDK retries nothing by
default: without it a broken connection is slept on and sent again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from google.genai import Client
from google.genai.errors import APIError, UnknownApiResponseError
from google.genai.types import HttpOptions, HttpRetryOptions

from hab_ray.calls import Answer, ChatCall, EmbedCall, Finish, Role, Usage, clean_text, has_visible_text
from hab_ray.catalog import ModelEntry
from hab_ray.errors import CallError, FailureKind, ProviderError
from hab_ray.providers.base import Endpoint, Exchange, JsonObject, ListLimits, Wire, malformed
from hab_ray.providers.google_errors import classify
from hab_ray.providers.http import broken, error_object, json_object, retry_after_s
from hab_ray.providers.numbers import token_count, usage_fields, vector

_HARMS = ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT")
_SAFETY = [{"category": f"HARM_CATEGORY_{harm}", "threshold": "BLOCK_NONE"} for harm in _HARMS]
_ROLE = {Role.USER: "user", Role.ASSISTANT: "model"}
_BLOCKED = {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR"}
_MILLISECONDS = 1000
_VERSION_ENV = "GOOGLE_GENAI_API_VERSION"
_DEFAULT_VERSION = "v1beta"


def connection(endpoint: Endpoint) -> Client:
    """The SDK's client, which sends everything once; paths given to it begin with the API version."""
    return Client(
        vertexai=False,
        api_key=endpoint.key,
        http_options=HttpOptions(
            base_url=endpoint.url,
            headers=dict(endpoint.headers),
            api_version="",
            timeout=round(endpoint.timeout_s * _MILLISECONDS),
            retry_options=HttpRetryOptions(attempts=1),
            async_client_args={"allow_redirects": False},
        ),
    )


def api_version(endpoint: Endpoint, wire_version: str | None = None) -> str:
    """The API version of a request: the model's, else the provider's, else the environment's, else v1beta.

    Every verb asks here, because a file or a batch of one version is not found under another. Not the SDK's default:
    v1 has no systemInstruction, responseMimeType or thinkingConfig. "beta" is the SDK's own name for v1beta.
    """
    version = wire_version or endpoint.api_version or os.environ.get(_VERSION_ENV) or _DEFAULT_VERSION
    return _DEFAULT_VERSION if version == "beta" else version


def refusal(endpoint: Endpoint, error: APIError) -> CallError:
    """What an error response means, without the key."""
    headers = getattr(error.response, "headers", None) or {}
    body = error_object(endpoint.without_key(json.dumps(error.details, ensure_ascii=False)))
    return classify(error.code, body, retry_after_s(headers))


class GoogleProvider:
    """Content generation and embeddings at one endpoint."""

    # 100 requests in one batchEmbedContents, and less than 20 MB a request.
    list_limits = ListLimits(texts=100, text_bytes=4_000_000)

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = connection(endpoint)

    def chat(self, call: ChatCall, entry: ModelEntry) -> Wire:
        """See Provider."""
        body: dict[str, Any] = {
            "contents": [{"role": _ROLE[m.role], "parts": [{"text": clean_text(m.text)}]} for m in call.messages]
        }
        if call.system:
            body["systemInstruction"] = {"parts": [{"text": clean_text(call.system)}]}
        body["generationConfig"] = _generation(call, entry)
        body["safetySettings"] = _SAFETY
        return Wire(f"/models/{entry.wire}:generateContent", body, entry.api_version)

    def embed(self, calls: Sequence[EmbedCall], entry: ModelEntry) -> Wire:
        """See Provider."""
        size = {} if calls[0].dimensions is None else {"outputDimensionality": calls[0].dimensions}
        model = f"models/{entry.wire}"
        requests = [{"model": model, "content": {"parts": [{"text": clean_text(call.text)}]}, **size} for call in calls]
        return Wire(f"/{model}:batchEmbedContents", {"requests": requests}, entry.api_version)

    async def send(self, wire: Wire) -> Exchange:
        """See Provider."""
        path = f"{api_version(self._endpoint, wire.version)}{wire.path}"
        try:
            response = await self._client._api_client.async_request("post", path, dict(wire.body))
        except APIError as error:
            raise refusal(self._endpoint, error) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise broken(error) from None
        except (UnknownApiResponseError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise malformed(type(error).__name__) from None
        return Exchange(json_object(self._endpoint.without_key(response.body or "")))

    def read_chat(self, body: JsonObject) -> Answer:
        """See Provider."""
        usage = usage_fields(body, "usageMetadata")
        used = _usage(usage)
        try:
            finish, text = _said(body)
            known = bool(usage) or finish is Finish.REFUSED
            return Answer(finish, used, str(body.get("modelVersion") or ""), text=text, bill_known=known)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise malformed(repr(error)) from None

    def read_embeddings(self, body: JsonObject, count: int) -> Answer:
        """See Provider."""
        usage = _usage(usage_fields(body, "usageMetadata"))
        try:
            vectors = tuple(vector(item["values"]) for item in body["embeddings"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise malformed(repr(error)) from None
        if len(vectors) != count:
            raise malformed(f"{len(vectors)} vectors for {count} texts")
        return Answer(Finish.OK, usage, model_reported="", vectors=vectors)

    async def close(self) -> None:
        """See Provider."""
        await self._client.aio.aclose()
        self._client.close()


def _generation(call: ChatCall, entry: ModelEntry) -> dict[str, Any]:
    config: dict[str, Any] = {"maxOutputTokens": entry.output_limit(call.params.max_tokens)}
    if call.params.temperature is not None:
        config["temperature"] = call.params.temperature
    if call.params.top_p is not None:
        config["topP"] = call.params.top_p
    if call.schema_json is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = json.loads(call.schema_json)
    if call.params.effort is not None:
        config["thinkingConfig"] = _thinking(call.params.effort)
    return config


def _thinking(effort: str) -> dict[str, Any]:
    """The vendor's two words for effort: tokens (2.5 models; 0 = off, -1 = as it sees fit), or a level (3.x)."""
    try:
        return {"thinkingBudget": int(effort)}
    except ValueError:
        return {"thinkingLevel": effort.upper()}


def _said(body: JsonObject) -> tuple[Finish, str]:
    """How the first candidate ended and its visible text, or why the vendor gave none.

    Raises:
        ProviderError: the account is limited or disabled.
    """
    if not body.get("candidates"):
        return Finish.REFUSED, f"prompt blocked: {body['promptFeedback']['blockReason']}"
    candidate = body["candidates"][0]
    reason = str(candidate.get("finishReason") or "STOP")
    parts = (candidate.get("content") or {}).get("parts") or []
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    if reason == "PUP_LIMITED_DISABLED":
        raise ProviderError(
            FailureKind.BAD_KEY, f"{reason}: the account is limited or disabled by the vendor; see its console"
        )
    if reason in _BLOCKED:
        return Finish.REFUSED, str(candidate.get("finishMessage") or f"answer blocked: {reason}")
    if reason == "STOP":
        return (Finish.OK if has_visible_text(text) else Finish.EMPTY), text
    return (Finish.TRUNCATED if text or reason == "MAX_TOKENS" else Finish.EMPTY), text


def _usage(usage: Mapping[str, Any]) -> Usage:
    """The prompt includes what was cached; the candidates leave out the thoughts, which are billed as output."""
    thoughts = token_count(usage, "thoughtsTokenCount")
    return Usage(
        input=token_count(usage, "promptTokenCount"),
        cached=token_count(usage, "cachedContentTokenCount"),
        output=token_count(usage, "candidatesTokenCount") + thoughts,
        reasoning=thoughts,
    )
