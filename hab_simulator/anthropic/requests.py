"""Anthropic's requests as the types of its SDK (anthropic 2.12) describe them: names and types alone.

What a model refuses of them is in `anthropic_bodies`. Blocks that this simulator cannot read (images, documents, tool
use and its results) are none of the tags here: they are refused as a tag that the endpoint does not know.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _CacheControl(_Body):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class Text(_Body):
    """A block of text."""

    type: Literal["text"]
    text: str = Field(min_length=1)
    cache_control: _CacheControl | None = None
    citations: list[dict[str, Any]] | None = None


class _Thought(_Body):
    type: Literal["thinking"]
    thinking: str
    signature: str


class _RedactedThought(_Body):
    type: Literal["redacted_thinking"]
    data: str


def _as_blocks(content: object) -> object:
    """A plain text as the one block it stands for; an empty one as none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


_Block = Annotated[Text | _Thought | _RedactedThought, Field(discriminator="type")]


class AnthropicMessage(_Body):
    """One message of a conversation."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[list[_Block], BeforeValidator(_as_blocks), Field(min_length=1)]

    @property
    def texts(self) -> list[Text]:
        """Its blocks of text."""
        return [block for block in self.content if isinstance(block, Text)]


class _Metadata(_Body):
    user_id: str | None = None


class _BlockBinding(_Body):
    prefix_mismatch_behavior: Literal["error", "drop_block"] | None = None


class _Thinking(_Body):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None
    block_binding: _BlockBinding | None = None


class _Format(_Body):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class _OutputConfig(_Body):
    format: _Format | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class _ToolChoice(_Body):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Diagnostics(_Body):
    previous_message_id: str | None = None


class Messages(_Body):
    """The body of POST /v1/messages."""

    model: str
    max_tokens: int = Field(ge=1)
    messages: list[AnthropicMessage] = Field(min_length=1)
    system: Annotated[list[Text], BeforeValidator(_as_blocks)] = []
    temperature: float | None = Field(default=None, ge=0, le=1)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    stop_sequences: list[str] | None = None
    metadata: _Metadata | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    cache_control: _CacheControl | None = None
    tools: list[dict[str, Any]] = []
    tool_choice: _ToolChoice | None = None
    container: str | dict[str, Any] | None = None
    diagnostics: _Diagnostics | None = None
    inference_geo: str | None = None
    speed: Literal["standard", "fast"] | None = None
    stream: Literal[False] | None = None

    @property
    def marks_a_cache(self) -> bool:
        """Whether it asks for a prefix to be cached."""
        texts = [text for message in self.messages for text in message.texts]
        return self.cache_control is not None or any(text.cache_control for text in (*self.system, *texts))
