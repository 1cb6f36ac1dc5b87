"""Anthropic's requests, as far as our clients send them: names and types alone.

What a model refuses of them is in `anthropic.bodies`.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# Taken with any value: the vendor accepts them, and they change no simulated answer.
HARMLESS = frozenset({"stop_sequences", "metadata", "service_tier"})


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AnthropicMessage(_Body):
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    content: str = Field(min_length=1)


class _Format(_Body):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class _OutputConfig(_Body):
    format: _Format | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class Messages(_Body):
    """The body of POST /v1/messages."""

    model: str
    max_tokens: int = Field(ge=1)
    messages: list[AnthropicMessage] = Field(min_length=1)
    system: str = ""
    temperature: float | None = Field(default=None, ge=0, le=1)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    output_config: _OutputConfig = _OutputConfig()
    stream: Literal[False] | None = None
