"""Gemini's requests as the types of its SDK (google-genai 3.4) describe them: names and types alone.

Field names come in camelCase and in snake_case, both at once from the SDK, and whole numbers may come as strings.
What a model refuses is in `google_bodies`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

_Object = dict[str, Any]


class Body(BaseModel):
    """Any part of a request."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class ContentPart(Body):
    """One part of a content: text, or something that this simulator cannot read."""

    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    part_metadata: _Object | None = None
    inline_data: _Object | None = None
    file_data: _Object | None = None
    video_metadata: _Object | None = None
    media_resolution: _Object | str | None = None
    media_processing: _Object | None = None
    audio_metadata: _Object | None = None
    audio_transcription: _Object | None = None
    speech_metadata: _Object | None = None
    document_metadata: _Object | None = None
    spreadsheet_metadata: _Object | None = None
    function_call: _Object | None = None
    function_response: _Object | None = None
    executable_code: _Object | None = None
    code_execution_result: _Object | None = None
    tool_call: _Object | None = None
    tool_response: _Object | None = None


class Content(Body):
    """What one side said."""

    parts: list[ContentPart] = Field(min_length=1)
    role: Literal["user", "model"] | None = None

    @property
    def text(self) -> str:
        """All its text, thoughts apart."""
        return "".join(part.text or "" for part in self.parts if not part.thought)


class _Thinking(Body):
    thinking_budget: int | None = None
    thinking_level: Literal["MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"] | None = None
    include_thoughts: bool | None = None


class Generation(Body):
    """How the answer is to be made."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: float | None = Field(default=None, ge=0)
    candidate_count: int | None = Field(default=None, ge=1, le=8)
    max_output_tokens: int | None = Field(default=None, ge=1)
    stop_sequences: list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    response_mime_type: Literal["text/plain", "application/json"] | None = None
    response_schema: _Object | None = None
    response_json_schema: _Object | None = None
    response_format: _Object | None = None
    response_modalities: list[str] | None = None
    thinking_config: _Thinking = _Thinking()
    media_resolution: str | None = None
    speech_config: _Object | None = None
    image_config: _Object | None = None
    audio_transcription_config: _Object | None = None
    translation_config: _Object | None = None
    enable_affective_dialog: bool | None = None
    enable_enhanced_civic_answers: bool | None = None
    continuation_token: str | None = None


class _Safety(Body):
    category: str = Field(pattern="^HARM_CATEGORY_")
    threshold: Literal["BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH", "BLOCK_NONE", "OFF"]


class _CallingConfig(Body):
    mode: Literal["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"] | None = None
    allowed_function_names: list[str] | None = None
    stream_function_call_arguments: bool | None = None


class _ToolConfig(Body):
    function_calling_config: _CallingConfig | None = None
    retrieval_config: _Object | None = None
    include_server_side_tool_invocations: bool | None = None


class Tool(Body):
    """Functions that the client offers, or a tool of the vendor's own."""

    function_declarations: list[_Object] | None = None
    google_search: _Object | None = None
    google_search_retrieval: _Object | None = None
    google_maps: _Object | None = None
    code_execution: _Object | None = None
    url_context: _Object | None = None
    file_search: _Object | None = None
    computer_use: _Object | None = None
    mcp_servers: list[_Object] | None = None


class Generate(Body):
    """The body of `models/M:generateContent`."""

    contents: list[Content] = Field(min_length=1)
    model: str | None = None
    system_instruction: Content | None = None
    generation_config: Generation = Generation()
    safety_settings: list[_Safety] = Field(default_factory=list)
    tools: list[Tool] = Field(default_factory=list)
    tool_config: _ToolConfig | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None


class Embed(Body):
    """The body of `models/M:embedContent`."""

    content: Content
    model: str | None = None
    task_type: str | None = None
    title: str | None = None
    output_dimensionality: int | None = None


class EmbedMany(Body):
    """The body of `models/M:batchEmbedContents`."""

    requests: list[Embed] = Field(min_length=1)
