"""OpenAI's requests as its API reference and the types of its SDK (openai 3.54) describe them: names and types alone.

What a model refuses of them is in `openai_bodies`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Body(BaseModel):
    """Any part of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Breakpoint(Body):
    mode: Literal["explicit"]
    ttl: Literal["30m", "12h"] | None = None


class Text(Body):
    """A part of text."""

    type: Literal["text"]
    text: str
    prompt_cache_breakpoint: _Breakpoint | None = None


class _Refusal(Body):
    type: Literal["refusal"]
    refusal: str


class Media(Body):
    """A part that is no text: its fields are the vendor's business, for it is refused as a whole."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: Literal["image_url", "input_audio", "file"]


_Part = Annotated[Text | _Refusal | Media, Field(discriminator="type")]


class Message(Body):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None
    name: str | None = None
    refusal: str | None = None
    audio: dict[str, Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    function_call: dict[str, Any] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content if isinstance(part, Text))
        return self.content or ""


class _NamedSchema(Body):
    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: str | None = None
    strict: bool | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class _Format(Body):
    type: Literal["text", "json_schema", "json_object"]
    json_schema: _NamedSchema | None = None


class _CacheOptions(Body):
    mode: Literal["implicit", "explicit"] | None = None
    ttl: Literal["30m"] | None = None


class Chat(Body):
    """The body of POST /v1/chat/completions."""

    model: str
    messages: list[Message] = Field(min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    logit_bias: dict[str, int] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    seed: int | None = None
    n: int | None = Field(default=None, ge=1, le=128)
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    response_format: _Format | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    audio: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    moderation: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: list[dict[str, Any]] | None = None
    function_call: str | dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: _CacheOptions | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = None


_TokenId = Annotated[int, Field(ge=0, lt=1_000_000)]


class Embeddings(Body):
    """The body of POST /v1/embeddings."""

    model: str
    input: str | list[str] | list[_TokenId] | list[list[_TokenId]]
    dimensions: int | None = Field(default=None, ge=1)
    encoding_format: Literal["float", "base64"] = "float"
    user: str | None = None
