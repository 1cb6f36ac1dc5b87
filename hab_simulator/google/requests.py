"""Gemini's requests, as far as our clients send them: names and types alone.

Field names come in camelCase and in snake_case, both at once from the SDK, and whole numbers may come as strings.
What a model refuses is in `google.bodies`.
"""

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from hab_simulator.settings import without

_HARMLESS = (
    *("seed", "stop_sequences", "top_k", "presence_penalty", "frequency_penalty", "media_resolution"),
    *("labels", "service_tier", "store", "task_type", "title"),
)
# Taken with any value: the vendor accepts them, and they change no simulated answer.
HARMLESS = frozenset({*_HARMLESS, *map(to_camel, _HARMLESS)})
_WITHOUT_HARMLESS = BeforeValidator(partial(without, names=HARMLESS))


class Body(BaseModel):
    """Any part of a request."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class ContentPart(Body):
    """One part of a content."""

    text: str


class Content(Body):
    """What one side said."""

    parts: list[ContentPart] = Field(min_length=1)
    role: Literal["user", "model"] | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


class _Thinking(Body):
    thinking_budget: int | None = None
    thinking_level: Literal["MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"] | None = None


class Generation(Body):
    """How the answer is to be made."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_output_tokens: int | None = Field(default=None, ge=1)
    response_mime_type: Literal["text/plain", "application/json"] | None = None
    response_json_schema: dict[str, Any] | None = None
    thinking_config: _Thinking = _Thinking()
    candidate_count: Literal[1] | None = None


class _Safety(Body):
    category: str = Field(pattern="^HARM_CATEGORY_")
    threshold: Literal["BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH", "BLOCK_NONE", "OFF"]


class Generate(Body):
    """The body of `models/M:generateContent`."""

    contents: list[Content] = Field(min_length=1)
    system_instruction: Content | None = None
    generation_config: Annotated[Generation, _WITHOUT_HARMLESS] = Generation()
    safety_settings: list[_Safety] = Field(default_factory=list)


class Embed(Body):
    """The body of `models/M:embedContent`."""

    content: Content
    model: str | None = None
    output_dimensionality: int | None = None


class EmbedMany(Body):
    """The body of `models/M:batchEmbedContents`."""

    requests: list[Annotated[Embed, _WITHOUT_HARMLESS]] = Field(min_length=1)
