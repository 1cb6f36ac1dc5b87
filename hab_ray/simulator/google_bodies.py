"""Gemini's request bodies: what is accepted and how the rest is refused.

Field names come in camelCase and in snake_case, both at once from the vendor's own SDK (google-genai 3.x),
and whole numbers may come as strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from hab_ray.simulator import schemas
from hab_ray.simulator.accounts import Service, SimulatedAccount, SimulatedModel, SimulatedSampling, SimulatedThinking
from hab_ray.simulator.asks import (
    Caching,
    ChatAsk,
    EmbedAsk,
    Refused,
    VectorForm,
    WireAnswer,
    compact,
    identity,
    tokens,
)

_STATUS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_JSON = "application/json"
_MOST_EMBEDDINGS = 100
_LEAST_DIMENSIONS = 128
_LEAST_BUDGET = 128
_MOST_BUDGET = 32_768
_SCHEMA_KEYWORDS = {
    "min_items": "minItems",
    "max_items": "maxItems",
    "any_of": "anyOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "property_ordering": "propertyOrdering",
}
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength")
_DROPPED = ("nullable", "format", "propertyOrdering", "example")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


Body = TypeVar("Body", bound=_Body)


class _Part(_Body):
    text: str


class _Content(_Body):
    parts: list[_Part] = Field(min_length=1)
    role: Literal["user", "model"] | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


class _Thinking(_Body):
    thinking_budget: int | None = None
    thinking_level: Literal["MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"] | None = None
    include_thoughts: bool | None = None


class _Generation(_Body):
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: float | None = Field(default=None, ge=0)
    candidate_count: Literal[1] | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    stop_sequences: list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    response_mime_type: Literal["text/plain", "application/json"] | None = None
    response_schema: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None
    thinking_config: _Thinking = _Thinking()


class _Safety(_Body):
    category: str = Field(pattern="^HARM_CATEGORY_")
    threshold: Literal["BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH", "BLOCK_NONE", "OFF"]


class _Generate(_Body):
    contents: list[_Content] = Field(min_length=1)
    system_instruction: _Content | None = None
    generation_config: _Generation = _Generation()
    safety_settings: list[_Safety] = Field(default_factory=list)


class _Embed(_Body):
    content: _Content
    model: str | None = None
    task_type: str | None = None
    title: str | None = None
    output_dimensionality: int | None = None


class _EmbedMany(_Body):
    requests: list[_Embed] = Field(min_length=1)


def error(
    code: int,
    message: str,
    *,
    details: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> WireAnswer:
    """An error in the vendor's shape."""
    body: dict[str, Any] = {"code": code, "message": message, "status": _STATUS[code]}
    if details:
        body["details"] = list(details)
    return WireAnswer(code, compact({"error": body}), headers or {})


def read_generate(account: SimulatedAccount, name: str, body: Any) -> ChatAsk:
    """Check a body of `models/M:generateContent`. Raises Refused."""
    model = find_model(account, name, Service.CHAT)
    request = _validate(_Generate, body, name)
    config = request.generation_config
    _check(config, model, name)
    system = request.system_instruction.text if request.system_instruction else ""
    users = [content.text for content in request.contents if content.role != "model"]
    ask = ChatAsk(
        name=name,
        model=model,
        system=system,
        prompt=users[-1] if users else "",
        transcript="\n".join([system, *(content.text for content in request.contents)]),
        messages=len(request.contents),
        schema=_schema(config, name),
        limit=config.max_output_tokens,
        thinks=_thinks(config, model),
        caching=Caching.BY_VENDOR,
        identity=identity(name, body),
    )
    if ask.input_tokens > model.context_tokens:
        raise _refuse(
            f"The input token count ({ask.input_tokens}) exceeds the maximum number of tokens allowed "
            f"({model.context_tokens}).",
            name,
        )
    return ask


def read_embed(account: SimulatedAccount, name: str, body: Any) -> EmbedAsk:
    """Check a body of `models/M:batchEmbedContents`. Raises Refused."""
    requests = _validate(_EmbedMany, body, name).requests
    return _embed_ask(account, name, body, requests, VectorForm.LISTS)


def read_embed_one(account: SimulatedAccount, name: str, body: Any) -> EmbedAsk:
    """Check a body of `models/M:embedContent`. Raises Refused."""
    return _embed_ask(account, name, body, [_validate(_Embed, body, name)], VectorForm.SINGLE)


def _embed_ask(account: SimulatedAccount, name: str, body: Any, requests: list[_Embed], form: VectorForm) -> EmbedAsk:
    model = find_model(account, name, Service.EMBEDDINGS)
    if len(requests) > _MOST_EMBEDDINGS:
        raise _refuse(f"at most {_MOST_EMBEDDINGS} requests can be in one batch", name)
    for request in requests:
        size = request.output_dimensionality
        if request.model is not None and request.model != f"models/{name}":
            raise _refuse("each request must name the model of the URL", name)
        if not request.content.text:
            raise _refuse("content contains an empty Part.", name)
        if tokens(request.content.text) > model.context_tokens:
            raise _refuse(f"The text is longer than {model.context_tokens} tokens.", name)
        if size is not None and not _LEAST_DIMENSIONS <= size <= model.vector:
            raise _refuse(f"outputDimensionality: {size} is not in {_LEAST_DIMENSIONS}..{model.vector}", name)
    if len({request.output_dimensionality for request in requests}) > 1:
        raise _refuse("outputDimensionality must be the same in all requests", name)
    texts = tuple(request.content.text for request in requests)
    return EmbedAsk(name, model, texts, requests[0].output_dimensionality, form, identity(name, body))


def _refuse(message: str, name: str) -> Refused:
    return Refused(error(400, message), name)


def find_model(account: SimulatedAccount, name: str, service: Service) -> SimulatedModel:
    """The model of this name. Raises Refused where it does not exist or does not serve this."""
    model = account.model(name)
    if model is None or model.retired or service not in model.serves:
        message = f"models/{name} is not found, or is not supported for this method. Call ListModels."
        raise Refused(error(404, message), name)
    return model


def _validate(kind: type[Body], body: Any, name: str) -> Body:
    try:
        return kind.model_validate(body)
    except ValidationError as failure:
        first = failure.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(step) for step in first["loc"][:-1])
    field = str(first["loc"][-1]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        where = f" at '{place}'" if place else ""
        message = f'Invalid JSON payload received. Unknown name "{field}"{where}: Cannot find field.'
    else:
        path = ".".join(str(step) for step in first["loc"])
        message = f"* {path}: {first['msg']}"
    raise _refuse(message, name)


def _check(config: _Generation, model: SimulatedModel, name: str) -> None:
    thinking = config.thinking_config
    budget, level = thinking.thinking_budget, thinking.thinking_level
    if budget is not None and level is not None:
        raise _refuse("You can only set only one of thinking budget and thinking level.", name)
    if model.thinking is SimulatedThinking.NONE and (level is not None or budget not in (None, 0)):
        raise _refuse("Thinking is not supported for this model.", name)
    if model.thinking is SimulatedThinking.OPTIONAL and level is not None:
        raise _refuse("Thinking level is not supported for this model.", name)
    if model.thinking is SimulatedThinking.ALWAYS and budget == 0:
        raise _refuse("Budget 0 is invalid. This model only works in thinking mode.", name)
    if budget is not None and budget not in (-1, 0) and not _LEAST_BUDGET <= budget <= _MOST_BUDGET:
        raise _refuse(f"The thinking budget ({budget}) is invalid.", name)
    given = {param for param in ("temperature", "top_p") if getattr(config, param) is not None}
    if model.sampling is SimulatedSampling.FIXED and given:
        raise _refuse(f"{min(given)} is not supported for this model.", name)
    if model.sampling is SimulatedSampling.TEMPERATURE and "top_p" in given:
        raise _refuse("topP is not supported for this model.", name)
    if config.max_output_tokens is not None and config.max_output_tokens > model.output_tokens:
        raise _refuse(f"maxOutputTokens must be at most {model.output_tokens}", name)


def _thinks(config: _Generation, model: SimulatedModel) -> bool:
    return model.thinking is not SimulatedThinking.NONE and config.thinking_config.thinking_budget != 0


def _schema(config: _Generation, name: str) -> dict[str, Any] | None:
    if config.response_schema is None and config.response_json_schema is None:
        return {"type": "object"} if config.response_mime_type == _JSON else None
    if config.response_mime_type != _JSON:
        raise _refuse(f"A response schema is only allowed with responseMimeType {_JSON}.", name)
    if config.response_schema is not None and config.response_json_schema is not None:
        raise _refuse("Only one of responseSchema and responseJsonSchema can be set.", name)
    schema = config.response_json_schema
    try:
        if schema is None:
            schema = _as_json_schema(config.response_schema or {})
        schemas.check(schema, schemas.LENIENT)
    except schemas.SchemaError as refusal:
        raise _refuse(f"generation_config.response_schema: {refusal}", name) from None
    return schema


def _as_json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The vendor's schema (OpenAPI subset: upper-case types, nullable, numbers as strings) as JSON Schema."""
    if "additionalProperties" in schema or "additional_properties" in schema:
        raise schemas.SchemaError('Unknown name "additionalProperties": Cannot find field.')
    given = {_SCHEMA_KEYWORDS.get(name, name): value for name, value in schema.items()}
    found = {name: value for name, value in given.items() if name not in _DROPPED}
    if "type" in found:
        kind = str(found["type"]).lower()
        found["type"] = [kind, "null"] if given.get("nullable") else kind
    if given.get("nullable") and "enum" in found:
        found["enum"] = [*found["enum"], None]
    for name in _COUNTS:
        if name in found:
            found[name] = int(found[name])
    if "properties" in found:
        found["properties"] = {key: _as_json_schema(child) for key, child in found["properties"].items()}
    if "items" in found:
        found["items"] = _as_json_schema(found["items"])
    if "anyOf" in found:
        found["anyOf"] = [_as_json_schema(child) for child in found["anyOf"]]
    return found
