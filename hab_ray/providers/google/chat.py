"""Google's Gemini Developer API: content generation, embeddings, and the list of models.

Source: the API reference.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hab_ray.calls import Answer, ChatCall, EmbedCall, Finish, Role, Usage, clean_text, has_visible_text
from hab_ray.catalog.models import ModelEntry
from hab_ray.errors import FailureKind, ProviderError
from hab_ray.providers.base import Endpoint, Exchange, JsonObject, ListLimits, Wire, given, malformed, reading
from hab_ray.providers.google.connection import Connection
from hab_ray.providers.http import StatusError
from hab_ray.providers.model_list import all_names
from hab_ray.providers.numbers import counts_answer, dear_tier, token_count, usage_fields, vector

_MODELS_PER_PAGE = 1000
_HARMS = ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT")
_SAFETY = [{"category": f"HARM_CATEGORY_{harm}", "threshold": "BLOCK_NONE"} for harm in _HARMS]
_ROLE = {Role.USER: "user", Role.ASSISTANT: "model"}
_BLOCKED = {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR"}


class GoogleProvider:
    """Content generation and embeddings at one endpoint."""

    # 100 requests per batchEmbedContents, and less than 20 MB per request.
    list_limits = ListLimits(texts=100, text_bytes=4_000_000)

    def __init__(self, endpoint: Endpoint) -> None:
        self._connection = Connection(endpoint)

    def chat(self, call: ChatCall, entry: ModelEntry) -> Wire:
        body: dict[str, Any] = {
            "contents": [{"role": _ROLE[m.role], "parts": [{"text": clean_text(m.text)}]} for m in call.messages]
        }
        if call.system:
            body["systemInstruction"] = {"parts": [{"text": clean_text(call.system)}]}
        body["generationConfig"] = _generation(call, entry)
        body["safetySettings"] = _SAFETY
        return Wire(f"/models/{entry.wire}:generateContent", body, entry.api_version)

    def embed(self, calls: Sequence[EmbedCall], entry: ModelEntry) -> Wire:
        size = given(outputDimensionality=calls[0].dimensions)
        model = f"models/{entry.wire}"
        requests = [{"model": model, "content": {"parts": [{"text": clean_text(call.text)}]}, **size} for call in calls]
        return Wire(f"/{model}:batchEmbedContents", {"requests": requests}, entry.api_version)

    async def send(self, wire: Wire) -> Exchange:
        try:
            return Exchange(await self._connection.ask("POST", wire.path, wire.body, wire.version))
        except StatusError as refused:
            raise refused.error from None

    def read_chat(self, body: JsonObject) -> Answer:
        usage = usage_fields(body, "usageMetadata")
        used = _usage(usage)
        with reading():
            finish, text = _read_candidate(body)
            known = counts_answer(used, text) or finish is Finish.REFUSED
            tier = dear_tier(usage.get("serviceTier"), usage.get("trafficType"))
            name = str(body.get("modelVersion") or "")
            return Answer(finish, used, name, text=text, bill_known=known, dear_tier=tier)

    def read_embeddings(self, body: JsonObject, count: int) -> Answer:
        usage = _usage(usage_fields(body, "usageMetadata"))
        with reading():
            vectors = tuple(vector(item["values"]) for item in body["embeddings"])
        if len(vectors) != count:
            raise malformed(f"{len(vectors)} vectors for {count} texts")
        return Answer(Finish.OK, usage, model_reported="", vectors=vectors, bill_known=usage.input > 0)

    async def close(self) -> None:
        await self._connection.close()


def _generation(call: ChatCall, entry: ModelEntry) -> dict[str, Any]:
    config: dict[str, Any] = {"maxOutputTokens": entry.output_limit(call.params.max_tokens)}
    config |= given(temperature=call.params.temperature, topP=call.params.top_p)
    if call.schema_json is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = json.loads(call.schema_json)
    if call.params.effort is not None:
        config["thinkingConfig"] = _thinking(call.params.effort)
    return config


def _thinking(effort: str) -> dict[str, Any]:
    """Translate effort: a number of tokens (2.5 models; 0 = off, -1 = the model decides), or a level (3.x models)."""
    try:
        return {"thinkingBudget": int(effort)}
    except ValueError:
        return {"thinkingLevel": effort.upper()}


def _read_candidate(body: JsonObject) -> tuple[Finish, str]:
    """Return how the first candidate ended, and its visible text or the reason why it was blocked.

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
    """Read token counts. Prompt tokens include cached ones; candidate tokens exclude thoughts, billed as output."""
    thoughts = token_count(usage, "thoughtsTokenCount")
    return Usage(
        input=token_count(usage, "promptTokenCount"),
        cached=token_count(usage, "cachedContentTokenCount"),
        output=token_count(usage, "candidatesTokenCount") + thoughts,
        reasoning=thoughts,
    )


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """Return the models of the key, from GET models, without the prefix "models/"."""
    connection = Connection(endpoint)

    async def page_after(token: str | None) -> tuple[Iterable[object], object]:
        path = f"models?pageSize={_MODELS_PER_PAGE}" + (f"&pageToken={quote(token, safe='')}" if token else "")
        body = await connection.ask("GET", path)
        return [model["name"].removeprefix("models/") for model in body.get("models", [])], body.get("nextPageToken")

    return await all_names(page_after, connection.close)
