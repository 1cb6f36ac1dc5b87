"""Anthropic's request bodies: what is accepted and how the rest is refused.

Rules follow the vendor's documentation and the types of its SDK (anthropic 2.x, API versions 2023-06-01 and
2026-10-21).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from hab_simulator import schemas
from hab_simulator.accounts import Service, SimulatedAccount, SimulatedModel, SimulatedSampling, SimulatedThinking
from hab_simulator.anthropic.requests import Messages, Text
from hab_simulator.asks import Caching, ChatAsk, Refused, WireAnswer, compact, identity
from hab_simulator.settings import first_problem

WITHOUT_SAMPLING = "2026-10-21"
VERSIONS = ("2023-06-01", WITHOUT_SAMPLING)
REQUEST_ID = "req_simulated"
_BLOCK_BINDING = "thinking-binding-controls-2026-08-01"
_LEAST_BUDGET = 1024
_SAMPLING = ("temperature", "top_p", "top_k")


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


def read_messages(account: SimulatedAccount, headers: Mapping[str, str], body: Any) -> ChatAsk:
    """Check a body of POST /v1/messages. Raises Refused."""
    version = headers.get("anthropic-version")
    name = body.get("model") if isinstance(body, dict) else None
    name = name if isinstance(name, str) else ""
    if version not in VERSIONS:
        problem = "header is required" if version is None else f"{version!r} is not a valid version"
        raise _refuse(f"anthropic-version: {problem}", name)
    try:
        request = Messages.model_validate(body)
    except ValidationError as failure:
        raise _refuse(_first_problem(failure), name) from None
    model = _find(account, name)
    _check_betas(request, headers.get("anthropic-beta", ""))
    _check_unplayed(request)
    _check_tools(request, model)
    _check_sampling(request, model, version)
    _check_effort(request, model)
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
    place, message, kind = first_problem(failure)
    known = {"extra_forbidden": "Extra inputs are not permitted", "missing": "Field required"}
    return f"{place}: {known.get(kind, message)}"


def _find(account: SimulatedAccount, name: str) -> SimulatedModel:
    model = account.model(name)
    if model is None or model.retired or Service.CHAT not in model.serves:
        raise Refused(error(404, "not_found_error", f"model: {name}"), name)
    return model


def _check_betas(request: Messages, betas: str) -> None:
    """A field of a beta is unknown without the beta's header."""
    if request.thinking and request.thinking.block_binding and _BLOCK_BINDING not in betas:
        raise _refuse(f"thinking.{request.thinking.type}.block_binding: Extra inputs are not permitted", request.model)


def _check_unplayed(request: Messages) -> None:
    """What this simulator cannot play, refused as the vendor refuses it of models that lack it."""
    if request.messages[0].role == "system":
        message = (
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" '
            "as an input message role."
        )
        raise _refuse(message, request.model)
    if request.container is not None:
        raise _refuse("container: skills can only be used when a code execution tool is enabled", request.model)
    for param, plain in (("speed", "standard"), ("inference_geo", "global")):
        value = getattr(request, param)
        if value not in (None, plain):
            raise _refuse(f"{param}: '{value}' is not supported by this model", request.model)


def _check_tools(request: Messages, model: SimulatedModel) -> None:
    """Tools may be offered, and are never called: a model that must call one is beyond this simulator."""
    if request.tool_choice is None:
        return
    kind = request.tool_choice.type
    if not request.tools:
        raise _refuse("tool_choice may only be specified while providing tools", request.model)
    if kind in ("any", "tool") and model.thinking is SimulatedThinking.ALWAYS:
        raise _refuse("Thinking may not be enabled when tool_choice forces tool use.", request.model)
    if kind in ("any", "tool"):
        raise _refuse(f"tool_choice.type: '{kind}' is not supported by this model", request.model)


def _check_sampling(request: Messages, model: SimulatedModel, version: str) -> None:
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


def _check_effort(request: Messages, model: SimulatedModel) -> None:
    effort = request.output_config.effort if request.output_config else None
    if not model.takes_effort(effort):
        what = f"effort level '{effort}'" if model.efforts else "the effort parameter"
        raise _refuse(f"This model does not support {what}.", request.model)


def _check_thinking(request: Messages, model: SimulatedModel) -> None:
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


def _ask(request: Messages, model: SimulatedModel, body: Any) -> ChatAsk:
    texts = [(message.role, _text(message.texts)) for message in request.messages]
    system = "\n\n".join(filter(None, [_text(request.system), *(text for role, text in texts if role == "system")]))
    thinking = model.thinking is SimulatedThinking.ALWAYS or (
        request.thinking is not None and request.thinking.type != "disabled"
    )
    return ChatAsk(
        name=request.model,
        model=model,
        system=system,
        prompt=next((text for role, text in reversed(texts) if role == "user"), ""),
        transcript="\n".join([system, *(text for role, text in texts if role != "system")]),
        messages=len(texts),
        schema=_schema(request),
        limit=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        effort=request.output_config.effort if request.output_config else None,
        thinks=thinking,
        caching=Caching.BY_REQUEST if request.marks_a_cache else Caching.NEVER,
        identity=identity(request.model, body),
    )


def _text(blocks: Sequence[Text]) -> str:
    return "".join(block.text for block in blocks)


def _schema(request: Messages) -> dict[str, Any] | None:
    if request.output_config is None or request.output_config.format is None:
        return None
    schema = request.output_config.format.schema_
    try:
        schemas.check(schema, schemas.ANTHROPIC)
    except schemas.SchemaError as refusal:
        raise _refuse(f"output_config.format.schema: {refusal}", request.model) from None
    return schema
