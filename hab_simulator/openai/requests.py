"""OpenAI's requests, as far as our clients send them: names and types alone.

What a model refuses of them is in `openai.bodies`.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# Taken with any value: the vendor accepts them, and they change no simulated answer.
HARMLESS = frozenset(
    {
        *("seed", "stop", "presence_penalty", "frequency_penalty", "logit_bias", "verbosity"),
        *("user", "safety_identifier", "metadata", "store", "service_tier"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
    }
)


class Body(BaseModel):
    """Any part of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Message(Body):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class _NamedSchema(Body):
    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    strict: bool | None = None
    schema_: dict[str, Any] = Field(alias="schema")


class _Format(Body):
    type: Literal["json_schema"]
    json_schema: _NamedSchema


class Chat(Body):
    """The body of POST /v1/chat/completions."""

    model: str
    messages: list[Message] = Field(min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    response_format: _Format | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    stream: Literal[False] | None = None
    n: Literal[1] | None = None


class Embeddings(Body):
    """The body of POST /v1/embeddings."""

    model: str
    input: str | list[str]
    dimensions: int | None = Field(default=None, ge=1)
    encoding_format: Literal["float", "base64"] = "float"
