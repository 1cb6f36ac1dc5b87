"""OpenAI's request bodies: what is accepted and how the rest is refused.

Codes and parameter rules follow the vendor's documentation and the types of its SDK (openai 3.x).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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

_MOST_INPUTS = 2048
_MOST_INPUT_TOKENS = 300_000
_FORM = {"float": VectorForm.LISTS, "base64": VectorForm.BASE64}
_TAKEN = {
    SimulatedSampling.BOTH: ("temperature", "top_p"),
    SimulatedSampling.TEMPERATURE: ("temperature",),
    SimulatedSampling.FIXED: (),
}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Part(_Body):
    type: Literal["text"]
    text: str


class _Message(_Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]
    name: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class _NamedSchema(_Body):
    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: str | None = None
    strict: bool | None = None
    schema_: dict[str, Any] = Field(alias="schema")


class _Format(_Body):
    type: Literal["text", "json_schema"]
    json_schema: _NamedSchema | None = None


class _Chat(_Body):
    model: str
    messages: list[_Message] = Field(min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    stop: str | list[str] | None = None
    seed: int | None = None
    n: Literal[1] | None = None
    stream: Literal[False] | None = None
    response_format: _Format | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = None


class _Embeddings(_Body):
    model: str
    input: str | list[str]
    dimensions: int | None = Field(default=None, ge=1)
    encoding_format: Literal["float", "base64"] = "float"
    user: str | None = None


def error(
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> WireAnswer:
    """An error in the vendor's shape."""
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return WireAnswer(status, compact(body), headers or {})


def _find(account: SimulatedAccount, name: str, service: Service) -> SimulatedModel:
    model = account.model(name)
    if model is None:
        message = f"The model `{name}` does not exist or you do not have access to it."
        raise Refused(error(404, message, code="model_not_found"), name)
    if model.retired:
        message = f"The model `{name}` has been deprecated, see the page on deprecations."
        raise Refused(error(404, message, code="model_not_found"), name)
    if service not in model.serves:
        raise Refused(error(403, f"You are not allowed to use `{name}` for {service}.", param="model"), name)
    return model


def _model_name(body: Any) -> str:
    name = body.get("model") if isinstance(body, dict) else None
    return name if isinstance(name, str) else ""


def _invalid(failure: ValidationError, name: str) -> Refused:
    """The vendor's words for the first thing wrong in a body."""
    first = failure.errors(include_url=False, include_context=False)[0]
    param = ".".join(str(step) for step in first["loc"])
    match first["type"]:
        case "extra_forbidden":
            answer = error(400, f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
        case "missing":
            message = f"Missing required parameter: '{param}'."
            answer = error(400, message, param=param, code="missing_required_parameter")
        case kind:
            code = "invalid_type" if kind.endswith("_type") else "invalid_value"
            answer = error(400, f"Invalid value for '{param}': {first['msg']}.", param=param, code=code)
    return Refused(answer, name)


def read_chat(account: SimulatedAccount, body: Any) -> ChatAsk:
    """Check a body of POST /v1/chat/completions. Raises Refused."""
    name = _model_name(body)
    try:
        chat = _Chat.model_validate(body)
    except ValidationError as failure:
        raise _invalid(failure, name) from None
    model = _find(account, name, Service.CHAT)
    _check_reasoning(chat, model)
    _check_sampling(chat, model)
    _check_limit(chat, model)
    instructions = [m.text for m in chat.messages if m.role in ("system", "developer")]
    ask = ChatAsk(
        name=name,
        model=model,
        system="\n\n".join(instructions),
        prompt=next((m.text for m in reversed(chat.messages) if m.role == "user"), ""),
        transcript="\n".join(m.text for m in chat.messages),
        messages=len(chat.messages),
        schema=_schema(chat),
        limit=chat.max_completion_tokens or chat.max_tokens,
        thinks=_thinks(chat, model),
        caching=Caching.BY_VENDOR,
        identity=identity(name, body),
    )
    if ask.input_tokens > model.context_tokens:
        message = (
            f"This model's maximum context length is {model.context_tokens} tokens. However, your messages "
            f"resulted in {ask.input_tokens} tokens. Please reduce the length of the messages."
        )
        raise Refused(error(400, message, param="messages", code="context_length_exceeded"), name)
    return ask


def _thinks(chat: _Chat, model: SimulatedModel) -> bool:
    if model.thinking is SimulatedThinking.OPTIONAL:
        return chat.reasoning_effort not in (None, "none")
    return model.thinking is SimulatedThinking.ALWAYS


def _unsupported(param: str, message: str, code: str | None, name: str) -> Refused:
    return Refused(error(400, message, param=param, code=code), name)


def _check_reasoning(chat: _Chat, model: SimulatedModel) -> None:
    if model.thinking is SimulatedThinking.NONE and chat.reasoning_effort is not None:
        message = "Unrecognized request argument supplied: reasoning_effort"
        raise _unsupported("reasoning_effort", message, None, chat.model)
    if model.thinking is not SimulatedThinking.ALWAYS:
        return
    for param in ("max_tokens", "stop", "presence_penalty", "frequency_penalty"):
        if getattr(chat, param) is not None:
            hint = " Use 'max_completion_tokens' instead." if param == "max_tokens" else ""
            message = f"Unsupported parameter: '{param}' is not supported with this model.{hint}"
            raise _unsupported(param, message, "unsupported_parameter", chat.model)


def _check_sampling(chat: _Chat, model: SimulatedModel) -> None:
    for param in ("temperature", "top_p"):
        value = getattr(chat, param)
        if param not in _TAKEN[model.sampling] and value not in (None, 1):
            message = (
                f"Unsupported value: '{param}' does not support {value:g} with this model. "
                "Only the default (1) value is supported."
            )
            raise _unsupported(param, message, "unsupported_value", chat.model)


def _check_limit(chat: _Chat, model: SimulatedModel) -> None:
    limit = chat.max_completion_tokens or chat.max_tokens
    if limit is not None and limit > model.output_tokens:
        param = "max_tokens" if chat.max_tokens else "max_completion_tokens"
        message = (
            f"{param} is too large: {limit}. This model supports at most {model.output_tokens} completion "
            f"tokens, whereas you provided {limit}."
        )
        raise _unsupported(param, message, "invalid_value", chat.model)


def _schema(chat: _Chat) -> dict[str, Any] | None:
    if chat.response_format is None or chat.response_format.type == "text":
        return None
    named = chat.response_format.json_schema
    if named is None:
        message = "Missing required parameter: 'response_format.json_schema'."
        param = "response_format.json_schema"
        raise Refused(error(400, message, param=param, code="missing_required_parameter"), chat.model)
    try:
        schemas.check(named.schema_, schemas.OPENAI_STRICT if named.strict else schemas.LENIENT)
    except schemas.SchemaError as refusal:
        message = f"Invalid schema for response_format '{named.name}': {refusal}"
        raise Refused(error(400, message, param="response_format"), chat.model) from None
    return named.schema_


def read_embeddings(account: SimulatedAccount, body: Any) -> EmbedAsk:
    """Check a body of POST /v1/embeddings. Raises Refused."""
    name = _model_name(body)
    try:
        request = _Embeddings.model_validate(body)
    except ValidationError as failure:
        raise _invalid(failure, name) from None
    model = _find(account, name, Service.EMBEDDINGS)
    texts = (request.input,) if isinstance(request.input, str) else tuple(request.input)
    ask = EmbedAsk(name, model, texts, request.dimensions, _FORM[request.encoding_format], identity(name, body))
    longest = max((tokens(text) for text in texts), default=0)
    if not texts or not all(texts):
        problem = "'$.input' is invalid: it must hold at least one text and no empty one."
    elif len(texts) > _MOST_INPUTS:
        problem = f"'$.input' is invalid: at most {_MOST_INPUTS} inputs are allowed, you sent {len(texts)}."
    elif request.dimensions is not None and request.dimensions > model.vector:
        problem = f"Invalid value for 'dimensions' = {request.dimensions}. Must be at most {model.vector}."
    elif longest > model.context_tokens:
        problem = f"This model's maximum context length is {model.context_tokens} tokens, you sent {longest}."
    elif ask.input_tokens > _MOST_INPUT_TOKENS:
        problem = f"Requested {ask.input_tokens} tokens, max {_MOST_INPUT_TOKENS} tokens per request."
    else:
        return ask
    raise Refused(error(400, problem, param="input"), name)
