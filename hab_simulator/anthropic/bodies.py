"""Anthropic's request bodies: what is accepted and how the rest is refused.

Rules follow the vendor's documentation (API versions 2023-06-01 and 2026-10-21).
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from hab_simulator import schemas
from hab_simulator.accounts import Service, SimulatedAccount, SimulatedModel, SimulatedSampling, SimulatedThinking
from hab_simulator.anthropic.requests import HARMLESS, Messages
from hab_simulator.asks import ChatAsk, Refused, WireAnswer, compact, identity
from hab_simulator.settings import first_problem, without

WITHOUT_SAMPLING = "2026-10-21"
VERSIONS = ("2023-06-01", WITHOUT_SAMPLING)
REQUEST_ID = "req_simulated"
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
        request = Messages.model_validate(without(body, HARMLESS))
    except ValidationError as failure:
        place, problem, kind = first_problem(failure)
        known = {"extra_forbidden": "Extra inputs are not permitted", "missing": "Field required"}
        raise _refuse(f"{place}: {known.get(kind, problem)}", name) from None
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


def _find(account: SimulatedAccount, name: str) -> SimulatedModel:
    model = account.model(name)
    if model is None or model.retired or Service.CHAT not in model.serves:
        raise Refused(error(404, "not_found_error", f"model: {name}"), name)
    return model


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


def _check_thinking(request: Messages, model: SimulatedModel) -> None:
    effort = request.output_config.effort
    if not model.takes_effort(effort):
        what = f"effort level '{effort}'" if model.efforts else "the effort parameter"
        raise _refuse(f"This model does not support {what}.", request.model)
    if model.thinking is SimulatedThinking.ALWAYS and request.messages[-1].role == "assistant":
        message = "This model does not support assistant message prefill; end with a user message."
        raise _refuse(message, request.model)


def _ask(request: Messages, model: SimulatedModel, body: Any) -> ChatAsk:
    return ChatAsk(
        name=request.model,
        model=model,
        system=request.system,
        prompt=next((message.content for message in reversed(request.messages) if message.role == "user"), ""),
        transcript="\n".join([request.system, *(message.content for message in request.messages)]),
        messages=len(request.messages),
        schema=_schema(request),
        limit=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        effort=request.output_config.effort,
        thinks=model.thinking is SimulatedThinking.ALWAYS,
        caches=False,
        identity=identity(request.model, body),
    )


def _schema(request: Messages) -> dict[str, Any] | None:
    if request.output_config.format is None:
        return None
    schema = request.output_config.format.schema_
    try:
        schemas.check(schema, schemas.ANTHROPIC)
    except schemas.SchemaError as refusal:
        raise _refuse(f"output_config.format.schema: {refusal}", request.model) from None
    return schema
