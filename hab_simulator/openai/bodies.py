"""OpenAI's request bodies: what is accepted and how the rest is refused.

Codes and parameter rules follow the vendor's documentation.
"""

from collections.abc import Mapping
from typing import Any

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
from hab_simulator.openai.requests import HARMLESS, Chat, Embeddings
from hab_simulator.settings import first_problem, without

_MAX_INPUTS = 2048
_MAX_INPUT_TOKENS = 300_000
_FORM = {"float": VectorForm.LISTS, "base64": VectorForm.BASE64}
_TAKEN = {
    SimulatedSampling.BOTH: ("temperature", "top_p"),
    SimulatedSampling.TEMPERATURE: ("temperature",),
    SimulatedSampling.FIXED: (),
    SimulatedSampling.IGNORED: ("temperature", "top_p"),
}


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
    if model is None or model.retired:
        retired = "has been deprecated, see the page on deprecations."
        why = retired if model else "does not exist or you do not have access to it."
        raise Refused(error(404, f"The model `{name}` {why}", code="model_not_found"), name)
    if service not in model.serves:
        raise Refused(error(403, f"You are not allowed to use `{name}` for {service}.", param="model"), name)
    return model


def _model_name(body: Any) -> str:
    name = body.get("model") if isinstance(body, dict) else None
    return name if isinstance(name, str) else ""


def _invalid(failure: ValidationError, name: str) -> Refused:
    """The vendor's words for the first thing wrong in a body."""
    param, message, sort = first_problem(failure)
    match sort:
        case "extra_forbidden":
            answer = error(400, f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
        case "missing":
            message = f"Missing required parameter: '{param}'."
            answer = error(400, message, param=param, code="missing_required_parameter")
        case _:
            code = "invalid_type" if sort.endswith("_type") else "invalid_value"
            answer = error(400, f"Invalid value for '{param}': {message}.", param=param, code=code)
    return Refused(answer, name)


def read_chat(account: SimulatedAccount, body: Any) -> ChatAsk:
    """Check a body of POST /v1/chat/completions. Raises Refused."""
    name = _model_name(body)
    try:
        chat = Chat.model_validate(without(body, HARMLESS))
    except ValidationError as failure:
        raise _invalid(failure, name) from None
    model = _find(account, name, Service.CHAT)
    _check_reasoning(chat, model)
    _check_sampling(chat, model)
    _check_limit(chat, model)
    instructions = [m.content for m in chat.messages if m.role == "system"]
    ask = ChatAsk(
        name=name,
        model=model,
        system="\n\n".join(instructions),
        prompt=next((m.content for m in reversed(chat.messages) if m.role == "user"), ""),
        transcript="\n".join(m.content for m in chat.messages),
        messages=len(chat.messages),
        schema=_schema(chat),
        limit=chat.max_completion_tokens or chat.max_tokens,
        temperature=chat.temperature,
        top_p=chat.top_p,
        effort=chat.reasoning_effort,
        thinks=_thinks(chat, model),
        caches=True,
        identity=identity(name, body),
    )
    if ask.input_tokens > model.context_tokens:
        message = (
            f"This model's maximum context length is {model.context_tokens} tokens. However, your messages "
            f"resulted in {ask.input_tokens} tokens. Please reduce the length of the messages."
        )
        raise Refused(error(400, message, param="messages", code="context_length_exceeded"), name)
    return ask


def _thinks(chat: Chat, model: SimulatedModel) -> bool:
    if model.thinking is SimulatedThinking.OPTIONAL:
        return chat.reasoning_effort not in (None, "none")
    return model.thinking is SimulatedThinking.ALWAYS


def _unsupported(param: str, message: str, code: str | None, name: str) -> Refused:
    return Refused(error(400, message, param=param, code=code), name)


def _check_reasoning(chat: Chat, model: SimulatedModel) -> None:
    if model.thinking is SimulatedThinking.NONE and chat.reasoning_effort is not None:
        message = "Unrecognized request argument supplied: reasoning_effort"
        raise _unsupported("reasoning_effort", message, None, chat.model)
    if not model.takes_effort(chat.reasoning_effort):
        raise _effort_refused(chat, model)
    if model.thinking is SimulatedThinking.ALWAYS and chat.max_tokens is not None:
        problem = "Unsupported parameter: 'max_tokens' is not supported with this model."
        message = f"{problem} Use 'max_completion_tokens' instead."
        raise _unsupported("max_tokens", message, "unsupported_parameter", chat.model)


def _effort_refused(chat: Chat, model: SimulatedModel) -> Refused:
    """A level that the model does not have, in OpenAI's words; any level, in xAI's."""
    if not model.efforts:
        message = f"Model {chat.model} does not support parameter reasoningEffort."
        return _unsupported("reasoning_effort", message, None, chat.model)
    levels = ", ".join(f"'{level}'" for level in model.efforts)
    message = (
        f"Unsupported value: 'reasoning_effort' does not support \"{chat.reasoning_effort}\" with this model. "
        f"Supported values are: {levels}."
    )
    return _unsupported("reasoning_effort", message, "unsupported_value", chat.model)


def _check_sampling(chat: Chat, model: SimulatedModel) -> None:
    for param in ("temperature", "top_p"):
        value = getattr(chat, param)
        if param not in _TAKEN[model.sampling] and value not in (None, 1):
            message = (
                f"Unsupported value: '{param}' does not support {value:g} with this model. "
                "Only the default (1) value is supported."
            )
            raise _unsupported(param, message, "unsupported_value", chat.model)


def _check_limit(chat: Chat, model: SimulatedModel) -> None:
    limit = chat.max_completion_tokens or chat.max_tokens
    if limit is not None and limit > model.output_tokens:
        param = "max_tokens" if chat.max_tokens else "max_completion_tokens"
        message = (
            f"{param} is too large: {limit}. This model supports at most {model.output_tokens} completion "
            f"tokens, whereas you provided {limit}."
        )
        raise _unsupported(param, message, "invalid_value", chat.model)


def _schema(chat: Chat) -> dict[str, Any] | None:
    if chat.response_format is None:
        return None
    named = chat.response_format.json_schema
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
        request = Embeddings.model_validate(without(body, HARMLESS))
    except ValidationError as failure:
        raise _invalid(failure, name) from None
    model = _find(account, name, Service.EMBEDDINGS)
    texts = (request.input,) if isinstance(request.input, str) else tuple(request.input)
    ask = EmbedAsk(name, model, texts, request.dimensions, _FORM[request.encoding_format], identity(name, body))
    longest = max((tokens(text) for text in texts), default=0)
    if not texts or not all(texts):
        problem = "'$.input' is invalid: it must hold at least one text and no empty one."
    elif len(texts) > _MAX_INPUTS:
        problem = f"'$.input' is invalid: at most {_MAX_INPUTS} inputs are allowed, you sent {len(texts)}."
    elif request.dimensions is not None and request.dimensions > model.vector:
        problem = f"Invalid value for 'dimensions' = {request.dimensions}. Must be at most {model.vector}."
    elif longest > model.context_tokens:
        problem = f"This model's maximum context length is {model.context_tokens} tokens, you sent {longest}."
    elif ask.input_tokens > _MAX_INPUT_TOKENS:
        problem = f"Requested {ask.input_tokens} tokens, max {_MAX_INPUT_TOKENS} tokens per request."
    else:
        return ask
    raise Refused(error(400, problem, param="input"), name)
