"""Anthropic's request bodies: what is accepted and how the rest is refused.

Rules follow the vendor's documentation and the types of its SDK (anthropic 2.x, API versions 2023-06-01 and
2026-10-21).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hab_ray.simulator import schemas
from hab_ray.simulator.accounts import Service, SimulatedAccount, SimulatedModel, SimulatedSampling, SimulatedThinking
from hab_ray.simulator.asks import Caching, ChatAsk, Refused, WireAnswer, compact, identity

WITHOUT_SAMPLING = "2026-10-21"
VERSIONS = ("2023-06-01", WITHOUT_SAMPLING)
REQUEST_ID = "req_simulated"
_LEAST_BUDGET = 1024
_SAMPLING = ("temperature", "top_p", "top_k")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _CacheControl(_Body):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class _Text(_Body):
    type: Literal["text"]
    text: str = Field(min_length=1)
    cache_control: _CacheControl | None = None


class _Message(_Body):
    role: Literal["user", "assistant"]
    content: str | list[_Text] = Field(min_length=1)


class _Metadata(_Body):
    user_id: str | None = None


class _Thinking(_Body):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None


class _Format(_Body):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class _OutputConfig(_Body):
    format: _Format | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class _Messages(_Body):
    model: str
    max_tokens: int = Field(ge=1)
    messages: list[_Message] = Field(min_length=1)
    system: str | list[_Text] = ""
    temperature: float | None = Field(default=None, ge=0, le=1)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    stop_sequences: list[str] | None = None
    metadata: _Metadata | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    cache_control: _CacheControl | None = None
    stream: Literal[False] | None = None

    def blocks(self) -> list[_Text]:
        """All content that came as blocks."""
        parts = [message.content for message in self.messages]
        return [block for part in (self.system, *parts) if isinstance(part, list) for block in part]


def error(
    status: int,
    kind: str,
    message: str,
    *,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> WireAnswer:
    """An error in the vendor's shape; `code` goes to `details.error_code`."""
    problem: dict[str, Any] = {"type": kind, "message": message}
    if code is not None:
        problem["details"] = {"error_code": code}
    body = {"type": "error", "error": problem, "request_id": REQUEST_ID}
    return WireAnswer(status, compact(body), {"request-id": REQUEST_ID, **(headers or {})})


def _refuse(message: str, name: str) -> Refused:
    return Refused(error(400, "invalid_request_error", message), name)


def read_messages(account: SimulatedAccount, version: str | None, body: Any) -> ChatAsk:
    """Check a body of POST /v1/messages. Raises Refused."""
    name = body.get("model") if isinstance(body, dict) else None
    name = name if isinstance(name, str) else ""
    if version not in VERSIONS:
        problem = "header is required" if version is None else f"{version!r} is not a valid version"
        raise _refuse(f"anthropic-version: {problem}", name)
    try:
        request = _Messages.model_validate(body)
    except ValidationError as failure:
        raise _refuse(_first_problem(failure), name) from None
    model = _find(account, name)
    _check_sampling(request, model, version)
    _check_thinking(request, model)
    ask = _ask(request, model, body)
    if request.max_tokens > model.output_tokens:
        raise _refuse(
            f"max_tokens: {request.max_tokens} > {model.output_tokens}, which is the maximum allowed number "
            f"of output tokens for {name}",
            name,
        )
    if ask.input_tokens > model.context_tokens:
        message = f"prompt is too long: {ask.input_tokens} tokens > {model.context_tokens} maximum"
        raise _refuse(message, name)
    return ask


def _first_problem(failure: ValidationError) -> str:
    first = failure.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    match first["type"]:
        case "extra_forbidden":
            return f"{place}: Extra inputs are not permitted"
        case "missing":
            return f"{place}: Field required"
        case _:
            return f"{place}: {first['msg']}"


def _find(account: SimulatedAccount, name: str) -> SimulatedModel:
    model = account.model(name)
    if model is None or model.retired or Service.CHAT not in model.serves:
        raise Refused(error(404, "not_found_error", f"model: {name}"), name)
    return model


def _check_sampling(request: _Messages, model: SimulatedModel, version: str) -> None:
    given = [param for param in _SAMPLING if getattr(request, param) is not None]
    if not given:
        return
    if version == WITHOUT_SAMPLING:
        raise _refuse(f"{given[0]}: Extra inputs are not permitted", request.model)
    if model.sampling is SimulatedSampling.FIXED:
        raise _refuse(f"`{given[0]}` is deprecated for this model.", request.model)
    if model.sampling is SimulatedSampling.TEMPERATURE and {"temperature", "top_p"} <= set(given):
        message = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        raise _refuse(message, request.model)


def _check_thinking(request: _Messages, model: SimulatedModel) -> None:
    if model.thinking is SimulatedThinking.ALWAYS and request.messages[-1].role == "assistant":
        message = "This model does not support assistant message prefill; end with a user message."
        raise _refuse(message, request.model)
    if request.thinking is None:
        return
    kind, budget = request.thinking.type, request.thinking.budget_tokens
    if model.thinking is SimulatedThinking.ALWAYS and kind != "adaptive":
        raise _refuse(f"thinking.type: '{kind}' is not supported by this model", request.model)
    if model.thinking is SimulatedThinking.NONE and kind != "disabled":
        raise _refuse("thinking: this model does not support thinking", request.model)
    if kind == "enabled" and (budget is None or not _LEAST_BUDGET <= budget < request.max_tokens):
        message = f"thinking.budget_tokens: must be at least {_LEAST_BUDGET} and less than `max_tokens`"
        raise _refuse(message, request.model)
    if kind != "enabled" and budget is not None:
        raise _refuse("thinking.budget_tokens: Extra inputs are not permitted", request.model)
    if kind != "disabled" and request.temperature not in (None, 1):
        raise _refuse("`temperature` may only be set to 1 when thinking is enabled.", request.model)


def _ask(request: _Messages, model: SimulatedModel, body: Any) -> ChatAsk:
    system = _text(request.system)
    texts = [_text(message.content) for message in request.messages]
    users = [text for text, message in zip(texts, request.messages, strict=True) if message.role == "user"]
    cached = request.cache_control is not None or any(block.cache_control for block in request.blocks())
    thinking = model.thinking is SimulatedThinking.ALWAYS or (
        request.thinking is not None and request.thinking.type != "disabled"
    )
    return ChatAsk(
        name=request.model,
        model=model,
        system=system,
        prompt=users[-1] if users else "",
        transcript="\n".join([system, *texts]),
        messages=len(texts),
        schema=_schema(request),
        limit=request.max_tokens,
        thinks=thinking,
        caching=Caching.BY_REQUEST if cached else Caching.NEVER,
        identity=identity(request.model, body),
    )


def _text(content: str | list[_Text]) -> str:
    return content if isinstance(content, str) else "".join(block.text for block in content)


def _schema(request: _Messages) -> dict[str, Any] | None:
    if request.output_config is None or request.output_config.format is None:
        return None
    schema = request.output_config.format.schema_
    try:
        schemas.check(schema, schemas.ANTHROPIC)
    except schemas.SchemaError as refusal:
        raise _refuse(f"output_config.format.schema: {refusal}", request.model) from None
    return schema
