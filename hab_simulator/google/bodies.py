"""Gemini's request bodies: what is accepted and how the rest is refused."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from hab_simulator import schemas
from hab_simulator.accounts import Service, SimulatedAccount, SimulatedModel, SimulatedSampling, SimulatedThinking
from hab_simulator.asks import (
    ChatAsk,
    EmbedAsk,
    Refused,
    VectorForm,
    WireAnswer,
    compact,
    identity,
    tokens,
)
from hab_simulator.google.requests import HARMLESS, Body, Embed, EmbedMany, Generate, Generation
from hab_simulator.settings import first_problem, without

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
_MAX_EMBEDDINGS = 100
_LEAST_DIMENSIONS = 128
_LEAST_BUDGET = 128
_MAX_BUDGET = 32_768

Request = TypeVar("Request", bound=Body)


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
    request = _validate(Generate, body, name)
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
        temperature=config.temperature,
        top_p=config.top_p,
        effort=_effort(config),
        thinks=_thinks(config, model),
        caches=True,
        identity=identity(name, body),
    )
    _check_length(ask.input_tokens, model, name)
    return ask


def _check_length(count: int, model: SimulatedModel, name: str) -> None:
    most = model.context_tokens
    if count > most:
        raise _refuse(f"The input token count ({count}) exceeds the maximum number of tokens allowed ({most}).", name)


def read_embed(account: SimulatedAccount, name: str, body: Any) -> EmbedAsk:
    """Check a body of `models/M:batchEmbedContents`. Raises Refused."""
    requests = _validate(EmbedMany, body, name).requests
    return _embed_ask(account, name, body, requests, VectorForm.LISTS)


def read_embed_one(account: SimulatedAccount, name: str, body: Any) -> EmbedAsk:
    """Check a body of `models/M:embedContent`. Raises Refused."""
    return _embed_ask(account, name, body, [_validate(Embed, body, name)], VectorForm.SINGLE)


def _embed_ask(account: SimulatedAccount, name: str, body: Any, requests: list[Embed], form: VectorForm) -> EmbedAsk:
    model = find_model(account, name, Service.EMBEDDINGS)
    if len(requests) > _MAX_EMBEDDINGS:
        raise _refuse(f"at most {_MAX_EMBEDDINGS} requests can be in one batch", name)
    for request in requests:
        size = request.output_dimensionality
        if request.model is not None and request.model != f"models/{name}":
            raise _refuse("each request must name the model of the URL", name)
        if not request.content.text:
            raise _refuse("content contains an empty Part.", name)
        _check_length(tokens(request.content.text), model, name)
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


def _validate(kind: type[Request], body: Any, name: str) -> Request:
    try:
        return kind.model_validate(without(body, HARMLESS))
    except ValidationError as failure:
        path, message, sort = first_problem(failure)
    if sort != "extra_forbidden":
        raise _refuse(f"* {path}: {message}", name)
    place, _, field = path.rpartition(".")
    where = f" at '{place}'" if place else ""
    raise _refuse(f'Invalid JSON payload received. Unknown name "{field}"{where}: Cannot find field.', name)


def _check(config: Generation, model: SimulatedModel, name: str) -> None:
    thinking = config.thinking_config
    budget, level = thinking.thinking_budget, thinking.thinking_level
    if budget is not None and level is not None:
        raise _refuse("You can only set only one of thinking budget and thinking level.", name)
    if model.thinking is SimulatedThinking.NONE and (level is not None or budget not in (None, 0)):
        raise _refuse("Thinking is not supported for this model.", name)
    if model.thinking is SimulatedThinking.OPTIONAL and level is not None:
        raise _refuse("Thinking level is not supported for this model.", name)
    if not model.takes_effort(level):
        raise _refuse(f"Thinking level {level} is not supported for this model.", name)
    if model.thinking is SimulatedThinking.ALWAYS and budget == 0:
        raise _refuse("Budget 0 is invalid. This model only works in thinking mode.", name)
    if budget is not None and budget not in (-1, 0) and not _LEAST_BUDGET <= budget <= _MAX_BUDGET:
        raise _refuse(f"The thinking budget ({budget}) is invalid.", name)
    given = {param for param in ("temperature", "top_p") if getattr(config, param) is not None}
    if model.sampling is SimulatedSampling.FIXED and given:
        raise _refuse(f"{min(given)} is not supported for this model.", name)
    if model.sampling is SimulatedSampling.TEMPERATURE and "top_p" in given:
        raise _refuse("topP is not supported for this model.", name)
    if config.max_output_tokens is not None and config.max_output_tokens > model.output_tokens:
        raise _refuse(f"maxOutputTokens must be at most {model.output_tokens}", name)


def _effort(config: Generation) -> str | None:
    thinking = config.thinking_config
    level, budget = thinking.thinking_level, thinking.thinking_budget
    return level.lower() if level else None if budget is None else str(budget)


def _thinks(config: Generation, model: SimulatedModel) -> bool:
    return model.thinking is not SimulatedThinking.NONE and config.thinking_config.thinking_budget != 0


def _schema(config: Generation, name: str) -> dict[str, Any] | None:
    schema = config.response_json_schema
    if schema is None:
        return {"type": "object"} if config.response_mime_type == _JSON else None
    if config.response_mime_type != _JSON:
        raise _refuse(f"A response schema is only allowed with responseMimeType {_JSON}.", name)
    try:
        schemas.check(schema, schemas.LENIENT)
    except schemas.SchemaError as refusal:
        raise _refuse(f"generation_config.response_schema: {refusal}", name) from None
    return schema
