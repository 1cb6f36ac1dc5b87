"""Every field of the vendors' published requests is answered, or refused in the vendor's words.

The fields are those of the installed SDKs' types: a field that a newer SDK adds fails here until somebody decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from anthropic.types import cache_control_ephemeral_param as anthropic_cache
from anthropic.types import message_create_params as anthropic_messages
from anthropic.types import output_config_param, text_block_param, thinking_config_adaptive_param
from anthropic.types import thinking_config_enabled_param as thinking_enabled
from anthropic.types.tool_choice_tool_param import ToolChoiceToolParam
from google.genai import types as google
from openai.types import batch_create_params as openai_batches
from openai.types import embedding_create_params as openai_embeddings
from openai.types.chat import chat_completion_assistant_message_param as assistant
from openai.types.chat import chat_completion_content_part_text_param as openai_text
from openai.types.chat import chat_completion_tool_message_param as tool
from openai.types.chat import chat_completion_user_message_param as user
from openai.types.chat import completion_create_params as openai_chat
from openai.types.shared_params import response_format_json_schema as openai_schema

from hab_simulator.accounts import SimulatedAccount, vendors
from hab_simulator.anthropic.bodies import read_messages
from hab_simulator.asks import Ask, ChatAsk, EmbedAsk, Refused
from hab_simulator.google.bodies import read_embed_one, read_generate
from hab_simulator.openai.bodies import read_chat, read_embeddings

OLD = {"anthropic-version": "2023-06-01", "anthropic-beta": "thinking-binding-controls-2026-08-01"}
UNKNOWN = ("Unknown parameter", "Extra inputs", "Unknown name")
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
TOOL = {"name": "look", "input_schema": {"type": "object"}}
DECLARED = {"functionDeclarations": [{"name": "look"}]}
CACHED = {"type": "ephemeral", "ttl": "1h"}


def fields_of(*types: type) -> set[str]:
    """The fields of TypedDicts, of their bases too."""
    return {name for each in types for base in each.__mro__ for name in getattr(base, "__annotations__", {})} | {
        name for each in types for base in getattr(each, "__orig_bases__", ()) for name in _annotated(base)
    }


def _annotated(base: Any) -> set[str]:
    return fields_of(base) if hasattr(base, "__annotations__") else set()


Table = Mapping[str, tuple[Any, str | None]]
"""Each field with a value, and what the refusal says; None where the request is answered."""

UNSUPPORTED = "is not supported with this model"
OPENAI: Table = {
    "messages": ([{"role": "user", "content": "hello"}], None),
    "model": ("gpt-4.1", None),
    "audio": ({"voice": "ash", "format": "wav"}, UNSUPPORTED),
    "frequency_penalty": (0.5, None),
    "function_call": ("auto", UNSUPPORTED),
    "functions": ([{"name": "look"}], UNSUPPORTED),
    "logit_bias": ({"50256": -100}, None),
    "logprobs": (True, "not allowed to request logprobs"),
    "max_completion_tokens": (50, None),
    "max_tokens": (50, None),
    "metadata": ({"a": "b"}, None),
    "modalities": (["text", "audio"], '\'modalities\' does not support ["text","audio"]'),
    "moderation": ({"model": "omni-moderation-latest"}, UNSUPPORTED),
    "n": (2, "'n' does not support 2 with this model. Only the default (1)"),
    "parallel_tool_calls": (True, "only allowed when 'tools' are specified"),
    "prediction": ({"type": "content", "content": "hello"}, None),
    "presence_penalty": (0.5, None),
    "prompt_cache_key": ("k", None),
    "prompt_cache_options": ({"mode": "implicit", "ttl": "30m"}, None),
    "prompt_cache_retention": ("24h", None),
    "reasoning_effort": ("low", "Unrecognized request argument supplied: reasoning_effort"),
    "response_format": ({"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}, None),
    "safety_identifier": ("s", None),
    "seed": (1, None),
    "service_tier": ("flex", None),
    "stop": (["a", "b"], None),
    "store": (True, None),
    "stream": (True, "must be verified to stream this model"),
    "stream_options": ({"include_usage": True}, "only allowed when 'stream' is enabled"),
    "temperature": (0, None),
    "tool_choice": ("none", "only allowed when 'tools' are specified"),
    "tools": ([FUNCTION], None),
    "top_logprobs": (3, "not allowed to request logprobs"),
    "top_p": (0.9, None),
    "user": ("u", None),
    "verbosity": ("low", None),
    "web_search_options": ({"search_context_size": "low"}, "Web search options not supported with this model"),
}
FIRST = {"role": "user", "content": "hello"}
OPENAI_MESSAGES: Table = {
    "content": ({"role": "user", "content": [{"type": "text", "text": "hello"}]}, None),
    "role": ({"role": "assistant", "content": "hello"}, None),
    "name": ({"role": "user", "content": "hello", "name": "ann"}, None),
    "audio": ({"role": "assistant", "audio": {"id": "a"}}, "messages.[1].audio' is not supported"),
    "function_call": (
        {"role": "assistant", "function_call": {"name": "look", "arguments": "{}"}},
        "messages.[1].function_call' is not supported",
    ),
    "refusal": ({"role": "assistant", "refusal": "No."}, None),
    "tool_calls": (
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function"}]},
        "messages.[1].tool_calls' is not supported",
    ),
    "tool_call_id": (
        {"role": "tool", "content": "found", "tool_call_id": "1"},
        "must be a response to a preceeding message with 'tool_calls'",
    ),
}
OPENAI_PARTS: Table = {
    "text": ({"type": "text", "text": "hello"}, None),
    "type": ({"type": "text", "text": "hello"}, None),
    "prompt_cache_breakpoint": (
        {"type": "text", "text": "hello", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
        None,
    ),
}
OPENAI_MEDIA: Table = {
    "image_url": ({"url": "https://a/b.png"}, "Invalid content type. image_url is only supported by certain models."),
    "input_audio": ({"data": "", "format": "wav"}, "input_audio is only supported by certain models."),
    "file": ({"file_id": "file-1"}, "file is only supported by certain models."),
}
OPENAI_SCHEMA: Table = {
    "name": ("a", None),
    "description": ("b", None),
    "schema": (SCHEMA, None),
    "strict": (True, None),
}
EMBEDDINGS: Table = {
    "input": ([[1, 2, 200_000], [3]], None),
    "model": ("text-embedding-3-small", None),
    "dimensions": (64, None),
    "encoding_format": ("base64", None),
    "user": ("u", None),
}
ANTHROPIC: Table = {
    "max_tokens": (800, None),
    "messages": ([{"role": "user", "content": "hello"}, {"role": "system", "content": "Be kind."}], None),
    "model": ("claude-sonnet-4-6", None),
    "cache_control": (CACHED, None),
    "container": ("container_1", "container: skills can only be used when"),
    "diagnostics": ({"previous_message_id": None}, None),
    "inference_geo": ("us", "inference_geo: 'us' is not supported by this model"),
    "metadata": ({"user_id": "u"}, None),
    "output_config": ({"effort": "low"}, None),
    "service_tier": ("standard_only", None),
    "speed": ("fast", "speed: 'fast' is not supported by this model"),
    "stop_sequences": (["a"], None),
    "stream": (True, "stream: Input should be False"),
    "system": ([{"type": "text", "text": "Be kind."}], None),
    "thinking": ({"type": "disabled"}, None),
    "tool_choice": ({"type": "auto"}, "tool_choice may only be specified while providing tools"),
    "tools": ([], None),
}
OF_HEADERS = {"user_profile_id", "workspace_id"}  # The SDK sends these as headers, which take any value here.
ANTHROPIC_BLOCK: Table = {
    "text": ({"type": "text", "text": "hello"}, None),
    "type": ({"type": "thinking", "thinking": "", "signature": "s"}, None),
    "cache_control": ({"type": "text", "text": "hello", "cache_control": CACHED}, None),
    "citations": ({"type": "text", "text": "hello", "citations": None}, None),
}
GENERATION: Table = {
    "temperature": (0, None),
    "top_p": (0.9, None),
    "top_k": (40, None),
    "candidate_count": (2, "Multiple candidates is not enabled for this model"),
    "max_output_tokens": (100, None),
    "stop_sequences": (["a"], None),
    "response_logprobs": (True, "Logprobs is not enabled for models/gemini-3.8-flash"),
    "logprobs": (3, "Logprobs is not enabled"),
    "presence_penalty": (0.5, None),
    "frequency_penalty": (0.5, None),
    "seed": (1, None),
    "response_mime_type": ("application/json", None),
    "response_schema": ({"type": "OBJECT"}, "A response schema is only allowed with responseMimeType"),
    "response_json_schema": (SCHEMA, "A response schema is only allowed with responseMimeType"),
    "response_format": ({"text": {}}, "responseFormat is not supported for this model"),
    "response_modalities": (["IMAGE"], "combination of response modalities (IMAGE) is not supported by the model"),
    "media_resolution": ("MEDIA_RESOLUTION_LOW", None),
    "speech_config": ({"languageCode": "de"}, "speechConfig is not supported for this model"),
    "image_config": ({"aspectRatio": "1:1"}, "imageConfig is not supported for this model"),
    "thinking_config": ({"thinkingLevel": "LOW", "includeThoughts": True}, None),
    "enable_enhanced_civic_answers": (True, None),
    "enable_affective_dialog": (True, "enableAffectiveDialog is not supported for this model"),
    "audio_transcription_config": ({"a": 1}, "audioTranscriptionConfig is not supported for this model"),
    "translation_config": ({"a": 1}, "translationConfig is not supported for this model"),
    "continuation_token": ("YQ==", "continuationToken is not supported for this model"),
}
BESIDE_GENERATION: Table = {
    "system_instruction": ({"parts": [{"text": "Be kind."}]}, None),
    "safety_settings": ([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}], None),
    "tools": ([DECLARED], None),
    "tool_config": ({"functionCallingConfig": {"mode": "AUTO"}}, "is set without function_declarations"),
    "labels": ({"a": "b"}, None),
    "cached_content": ("cachedContents/a", "CachedContent not found"),
    "service_tier": ("flex", None),
    "store": (False, None),
}
# What the SDK itself refuses or keeps for itself at the developer API: nothing of it is ever on the wire.
NOT_SENT = {
    "http_options",
    "should_return_http_response",
    "routing_config",
    "model_selection_config",
    "audio_timestamp",
    "automatic_function_calling",
    "automatic_continuation",
    "model_armor_config",
    "generation_output_config",
}
CALLS = "Tool use with function calling is unsupported by the model"
GOOGLE_PARTS: Table = {
    "text": ("hello", None),
    "thought": (True, "required oneof field 'data'"),
    "thought_signature": ("YQ==", "required oneof field 'data'"),
    "inline_data": ({"mimeType": "image/png", "data": ""}, "Image input modality is not enabled"),
    "file_data": ({"fileUri": "files/a"}, "Image input modality is not enabled"),
    "audio_transcription": ({"text": "a"}, "Image input modality is not enabled"),
    "function_call": ({"name": "look"}, CALLS),
    "function_response": ({"name": "look"}, CALLS),
    "executable_code": ({"code": "1"}, CALLS),
    "code_execution_result": ({"output": "1"}, CALLS),
    "tool_call": ({"id": "1"}, CALLS),
    "tool_response": ({"id": "1"}, CALLS),
    **{
        name: ({}, "required oneof field 'data'")
        for name in (
            "media_resolution",
            "video_metadata",
            "part_metadata",
            "media_processing",
            "speech_metadata",
            "document_metadata",
            "spreadsheet_metadata",
            "audio_metadata",
        )
    },
}
EMBED: Table = {
    "task_type": ("CLUSTERING", None),
    "title": ("a", None),
    "output_dimensionality": (128, None),
}
NEVER_EMBEDDED = {"mime_type", "auto_truncate", "document_ocr", "audio_track_extraction", "http_options"}


def account(name: str) -> SimulatedAccount:
    return vendors()[name]


def openai(**more: Any) -> Ask:
    return read_chat(account("openai"), {"model": "gpt-4.1", "messages": [FIRST], **more})


def anthropic(**more: Any) -> Ask:
    body = {"model": "claude-sonnet-4-6", "max_tokens": 2000, "messages": [FIRST], **more}
    return read_messages(account("anthropic"), OLD, body)


def gemini(**more: Any) -> Ask:
    body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}], **more}
    return read_generate(account("google"), "gemini-3.8-flash", body)


def check(expected: str | None, ask: Any) -> None:
    """The request is answered, or refused with these words."""
    if expected is None:
        assert isinstance(ask(), ChatAsk | EmbedAsk)
        return
    with pytest.raises(Refused) as refused:
        ask()
    said = refused.value.answer.body.decode().replace('\\"', '"')
    assert expected in said and not any(words in said for words in UNKNOWN)


TABLES: list[tuple[Table, set[str], Any]] = [
    (
        OPENAI,
        fields_of(openai_chat.CompletionCreateParamsNonStreaming, openai_chat.CompletionCreateParamsStreaming),
        lambda name, value: openai(**{name: value}),
    ),
    (
        OPENAI_MESSAGES,
        fields_of(
            user.ChatCompletionUserMessageParam,
            assistant.ChatCompletionAssistantMessageParam,
            tool.ChatCompletionToolMessageParam,
        ),
        lambda _, value: openai(messages=[FIRST, value]),
    ),
    (
        OPENAI_PARTS,
        fields_of(openai_text.ChatCompletionContentPartTextParam),
        lambda _, value: openai(messages=[{"role": "user", "content": [value]}]),
    ),
    (
        OPENAI_MEDIA,
        {"image_url", "input_audio", "file"},
        lambda name, value: openai(messages=[{"role": "user", "content": [{"type": name, name: value}]}]),
    ),
    (
        OPENAI_SCHEMA,
        fields_of(openai_schema.JSONSchema),
        lambda name, value: openai(
            response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, name: value}}
        ),
    ),
    (
        EMBEDDINGS,
        fields_of(openai_embeddings.EmbeddingCreateParams),
        lambda name, value: read_embeddings(
            account("openai"), {"model": "text-embedding-3-small", "input": ["a"], name: value}
        ),
    ),
    (
        ANTHROPIC,
        fields_of(anthropic_messages.MessageCreateParamsNonStreaming, anthropic_messages.MessageCreateParamsStreaming)
        - OF_HEADERS,
        lambda name, value: anthropic(**{name: value}),
    ),
    (
        ANTHROPIC_BLOCK,
        fields_of(text_block_param.TextBlockParam),
        lambda _, value: anthropic(messages=[FIRST, {"role": "assistant", "content": [value]}, FIRST]),
    ),
    (
        GENERATION,
        (set(google.GenerationConfig.model_fields) | set(google.GenerateContentConfig.model_fields))
        - BESIDE_GENERATION.keys()
        - NOT_SENT,
        lambda name, value: gemini(generationConfig={name: value}),
    ),
    (
        BESIDE_GENERATION,
        set(google.GenerateContentConfig.model_fields) - GENERATION.keys() - NOT_SENT,
        lambda name, value: gemini(**{name: value}),
    ),
    (
        GOOGLE_PARTS,
        set(google.Part.model_fields),
        lambda name, value: gemini(contents=[{"parts": [{name: value}]}]),
    ),
    (
        EMBED,
        set(google.EmbedContentConfig.model_fields) - NEVER_EMBEDDED,
        lambda name, value: read_embed_one(
            account("google"), "gemini-embedding-2", {"content": {"parts": [{"text": "a"}]}, name: value}
        ),
    ),
]


@pytest.mark.parametrize(("table", "published", "ask"), TABLES)
def test_every_published_field_is_answered_or_refused_in_the_vendors_words(
    table: Table, published: set[str], ask: Any
) -> None:
    assert table.keys() == published
    for name, (value, expected) in table.items():
        check(expected, lambda name=name, value=value: ask(name, value))


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (anthropic_cache.CacheControlEphemeralParam, {"type", "ttl"}),
        (thinking_enabled.ThinkingConfigEnabledParam, {"type", "budget_tokens", "display"}),
        (thinking_config_adaptive_param.ThinkingConfigAdaptiveParam, {"type", "display"}),
        (output_config_param.OutputConfigParam, {"effort", "format"}),
        (ToolChoiceToolParam, {"type", "name", "disable_parallel_tool_use"}),
        (openai_batches.BatchCreateParams, {
            "completion_window", "endpoint", "input_file_id", "metadata", "output_expires_after",
        }),
    ],
)  # fmt: skip
def test_what_the_requests_hold_has_no_field_that_nobody_looked_at(kind: type, table: set[str]) -> None:
    assert fields_of(kind) == table


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda: openai(tools=[]), "Invalid 'tools': empty array."),
        (lambda: openai(tools=[FUNCTION], tool_choice="none", parallel_tool_calls=False), None),
        (lambda: openai(tools=[FUNCTION], tool_choice="required"), "'tool_choice' does not support \"required\""),
        (lambda: openai(logprobs=False, n=1, stream=False, modalities=["text"]), None),
        (lambda: openai(response_format={"type": "json_object"}), "must contain the word 'json'"),
        (lambda: openai(messages=[{"role": "assistant"}]), "expected a string, got null"),
        (lambda: anthropic(tools=[TOOL], tool_choice={"type": "auto"}), None),
        (lambda: anthropic(tools=[TOOL], tool_choice={"type": "any"}), "'any' is not supported by this model"),
        (
            lambda: anthropic(model="claude-opus-5-5", tools=[TOOL], tool_choice={"type": "tool", "name": "look"}),
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
        (lambda: anthropic(speed="standard", inference_geo=None, container=None), None),
        (
            lambda: anthropic(thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}),
            None,
        ),
        (
            lambda: anthropic(messages=[{"role": "user", "content": [{"type": "image", "source": {}}]}]),
            "messages.0.content.0: Input tag 'image' found using 'type' does not match any of the expected tags: "
            "'text', 'thinking', 'redacted_thinking'",
        ),
        (lambda: gemini(tools=[DECLARED], toolConfig={"functionCallingConfig": {"mode": "AUTO"}}), None),
        (lambda: gemini(tools=[], generationConfig={"responseModalities": ["TEXT"], "candidateCount": 1}), None),
        (lambda: gemini(tools=[{"googleSearch": {}}]), "google_search as a tool is not enabled for models/gemini-3.8"),
        (
            lambda: gemini(tools=[DECLARED], toolConfig={"functionCallingConfig": {"mode": "ANY"}}),
            "Function calling with mode ANY is unsupported by the model",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_refused_and_what_asks_for_nothing_is_answered(ask: Any, expected: str | None) -> None:
    check(expected, ask)


def test_a_beta_field_needs_the_header_of_its_beta() -> None:
    thinking = {"type": "adaptive", "block_binding": {}}
    body = {"model": "claude-opus-5-5", "max_tokens": 2000, "messages": [FIRST], "thinking": thinking}
    with pytest.raises(Refused, match=r"thinking\.adaptive\.block_binding: Extra inputs are not permitted"):
        read_messages(account("anthropic"), {"anthropic-version": "2023-06-01"}, body)


def test_token_ids_count_as_tokens() -> None:
    ask = read_embeddings(account("openai"), {"model": "text-embedding-3-small", "input": [[1, 2, 3], [199_999]]})
    assert ask.input_tokens == 4 and len(set(ask.texts)) == 2
    for odd in ([-1], [10**40], [[1], ["a"]], [True]):
        with pytest.raises(Refused):
            read_embeddings(account("openai"), {"model": "text-embedding-3-small", "input": odd})


def test_a_system_message_in_the_conversation_is_an_instruction() -> None:
    messages = [FIRST, {"role": "system", "content": "Be brief."}, {"role": "user", "content": "again"}]
    ask = anthropic(system="Be kind.", messages=messages)
    assert isinstance(ask, ChatAsk) and ask.system == "Be kind.\n\nBe brief." and ask.prompt == "again"
