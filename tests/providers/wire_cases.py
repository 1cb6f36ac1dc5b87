"""Calls and the bodies that they become, per vendor."""

import json
from dataclasses import dataclass
from typing import Any

from hab_ray.calls import ChatCall, Message, Params, Role
from hab_ray.catalog.models import ModelEntry
from tests.providers.conftest import SCHEMA, chat_call, entry

TALK = (Message(Role.USER, "One?"), Message(Role.ASSISTANT, "Two."), Message(Role.USER, "Three \ud800 \u2028?"))
FULL = chat_call(Params(500, 0.0, 0.95), json.dumps(SCHEMA), "Be brief.", messages=TALK)
THINKS = chat_call(Params(500, effort="low"), system="Be brief.")


@dataclass(frozen=True)
class Case:
    """A call to a model and the body that it becomes."""

    kind: str
    call: ChatCall
    model: ModelEntry
    path: str
    body: dict[str, Any]
    version: str | None = None


_TEXT = {"role": "user", "content": "Should I sell my house?"}
_TEXTS = [
    {"role": "user", "content": "One?"},
    {"role": "assistant", "content": "Two."},
    {"role": "user", "content": "Three \ufffd \u2028?"},
]
_PARTS = {"role": "user", "parts": [{"text": "Should I sell my house?"}]}
_SAFETY = [
    {"category": f"HARM_CATEGORY_{harm}", "threshold": "BLOCK_NONE"}
    for harm in ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT")
]

CASES = {
    "openai full": Case(
        "openai",
        FULL,
        entry("gpt-4.1"),
        "/chat/completions",
        {
            "model": "gpt-4.1",
            "messages": [{"role": "system", "content": "Be brief."}, *_TEXTS],
            "max_tokens": 500,
            "temperature": 0.0,
            "top_p": 0.95,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
            },
        },
    ),
    "openai thinking": Case(
        "openai",
        THINKS,
        entry("o3", thinking="always", thinking_reserve=4000, output_limit_field="max_completion_tokens"),
        "/chat/completions",
        {
            "model": "o3",
            "messages": [{"role": "system", "content": "Be brief."}, _TEXT],
            "max_completion_tokens": 4500,
            "reasoning_effort": "low",
        },
    ),
    "anthropic full": Case(
        "anthropic",
        FULL,
        entry("claude-m", api_version="2023-06-01"),
        "/v1/messages",
        {
            "model": "claude-m",
            "max_tokens": 500,
            "messages": _TEXTS,
            "system": "Be brief.",
            "temperature": 0.0,
            "top_p": 0.95,
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        },
        "2023-06-01",
    ),
    "anthropic thinking": Case(
        "anthropic",
        THINKS,
        entry("claude-opus-5-5", thinking="always", thinking_reserve=4000),
        "/v1/messages",
        {
            "model": "claude-opus-5-5",
            "max_tokens": 4500,
            "messages": [_TEXT],
            "system": "Be brief.",
            "output_config": {"effort": "low"},
        },
    ),
    "google full": Case(
        "google",
        FULL,
        entry("gemini-m", api_version="v1beta"),
        "/models/gemini-m:generateContent",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "One?"}]},
                {"role": "model", "parts": [{"text": "Two."}]},
                {"role": "user", "parts": [{"text": "Three \ufffd \u2028?"}]},
            ],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {
                "maxOutputTokens": 500,
                "temperature": 0.0,
                "topP": 0.95,
                "responseMimeType": "application/json",
                "responseJsonSchema": SCHEMA,
            },
            "safetySettings": _SAFETY,
        },
        "v1beta",
    ),
    "google level": Case(
        "google",
        THINKS,
        entry("gemini-3.8-flash", thinking="always", thinking_reserve=4000),
        "/models/gemini-3.8-flash:generateContent",
        {
            "contents": [_PARTS],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {"maxOutputTokens": 4500, "thinkingConfig": {"thinkingLevel": "LOW"}},
            "safetySettings": _SAFETY,
        },
    ),
    "google budget": Case(
        "google",
        chat_call(Params(500, effort="0")),
        entry("gemini-2.5-flash", thinking="optional"),
        "/models/gemini-2.5-flash:generateContent",
        {
            "contents": [_PARTS],
            "generationConfig": {"maxOutputTokens": 8692, "thinkingConfig": {"thinkingBudget": 0}},
            "safetySettings": _SAFETY,
        },
    ),
}
