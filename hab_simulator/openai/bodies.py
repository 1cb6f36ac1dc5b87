"""OpenAI's request bodies: what is accepted and how the rest is refused.

Codes and parameter rules follow the vendor's documentation and the types of its SDK (openai 3.x).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from hab_simulator import schemas
from hab_simulator.accounts import Service, SimulatedAccount, SimulatedModel, SimulatedSampling, SimulatedThinking
from hab_simulator.asks import (
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
from hab_simulator.openai.requests import Chat, Embeddings, Media
from hab_simulator.settings import first_problem

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
        chat = Chat.model_validate(body)
    except ValidationError as failure:
        raise _invalid(failure, name) from None
    model = _find(account, name, Service.CHAT)
    _check_tools(chat)
    _check_unplayed(chat)
    _check_messages(chat)
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
        temperature=chat.temperature,
        top_p=chat.top_p,
        effort=chat.reasoning_effort,
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
    if model.thinking is not SimulatedThinking.ALWAYS:
        return
    for param in ("max_tokens", "stop", "presence_penalty", "frequency_penalty", "logit_bias", "prediction"):
        if getattr(chat, param) is not None:
            hint = " Use 'max_completion_tokens' instead." if param == "max_tokens" else ""
            message = f"Unsupported parameter: '{param}' is not supported with this model.{hint}"
            raise _unsupported(param, message, "unsupported_parameter", chat.model)


def _effort_refused(chat: Chat, model: SimulatedModel) -> Refused:
    """A level that the model does not have, in OpenAI's words; any level, in xAI's."""
    if not model.efforts:
        message = f"Model {chat.model} does not support parameter reasoningEffort."
        return _unsupported("reasoning_effort", message, None, chat.model)
    levels = ", ".join(f"'{level}'" for level in model.efforts)
    message = (
        f"Unsupported value: 'reasoning_effort' does not support {_shown(chat.reasoning_effort)} with this model. "
        f"Supported values are: {levels}."
    )
    return _unsupported("reasoning_effort", message, "unsupported_value", chat.model)


def _check_tools(chat: Chat) -> None:
    """Tools may be offered, and are never called: a model that must call one is beyond this simulator."""
    if chat.tools is None:
        for param in ("tool_choice", "parallel_tool_calls"):
            if getattr(chat, param) is not None:
                message = f"Invalid value for '{param}': '{param}' is only allowed when 'tools' are specified."
                raise _unsupported(param, message, None, chat.model)
    if chat.tools == []:
        message = (
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
        raise _unsupported("tools", message, "empty_array", chat.model)
    if chat.tool_choice not in (None, "none", "auto"):
        message = (
            f"Unsupported value: 'tool_choice' does not support {_shown(chat.tool_choice)} with this model. "
            "Supported values are: 'none' and 'auto'."
        )
        raise _unsupported("tool_choice", message, "unsupported_value", chat.model)


def _check_unplayed(chat: Chat) -> None:
    """What this simulator cannot play, refused as the vendor refuses it of models or accounts that lack it."""
    if chat.stream:
        message = (
            "Your organization must be verified to stream this model. Please go to: "
            "https://platform.openai.com/settings/organization/general and click on Verify Organization."
        )
        raise _unsupported("stream", message, "unsupported_value", chat.model)
    if chat.stream_options is not None:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise _unsupported("stream_options", message, None, chat.model)
    if chat.logprobs or chat.top_logprobs:
        message = "You are not allowed to request logprobs from this model."
        raise Refused(error(403, message), chat.model)
    if chat.web_search_options is not None:
        message = "Web search options not supported with this model."
        raise _unsupported("web_search_options", message, None, chat.model)
    for param in ("audio", "moderation", "functions", "function_call"):
        if getattr(chat, param) is not None:
            message = f"Unsupported parameter: '{param}' is not supported with this model."
            raise _unsupported(param, message, "unsupported_parameter", chat.model)
    for param, default in (("n", 1), ("modalities", ["text"])):
        value = getattr(chat, param)
        if value not in (None, default):
            message = (
                f"Unsupported value: '{param}' does not support {_shown(value)} with this model. "
                f"Only the default ({_shown(default)}) value is supported."
            )
            raise _unsupported(param, message, "unsupported_value", chat.model)


def _shown(value: object) -> str:
    return compact(value).decode()


def _check_messages(chat: Chat) -> None:
    for index, message in enumerate(chat.messages):
        where = f"messages.[{index}]"
        if message.role == "tool":
            problem = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            raise _unsupported(f"{where}.role", f"Invalid parameter: {problem}", None, chat.model)
        for field in ("tool_calls", "function_call", "audio"):
            if getattr(message, field) is not None:
                problem = f"Unsupported parameter: '{where}.{field}' is not supported with this model."
                raise _unsupported(f"{where}.{field}", problem, "unsupported_parameter", chat.model)
        if message.content is None and message.refusal is None:
            problem = "Invalid value for 'content': expected a string, got null."
            raise _unsupported(f"{where}.content", problem, None, chat.model)
        parts = message.content if isinstance(message.content, list) else []
        media = next((number for number, part in enumerate(parts) if isinstance(part, Media)), None)
        if media is not None:
            problem = f"Invalid content type. {parts[media].type} is only supported by certain models."
            raise _unsupported(f"{where}.content.[{media}].type", problem, None, chat.model)


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
    if chat.response_format is None or chat.response_format.type == "text":
        return None
    if chat.response_format.type == "json_object":
        return _any_object(chat)
    named = chat.response_format.json_schema
    if named is None or named.schema_ is None:
        param = "response_format.json_schema" + ("" if named is None else ".schema")
        message = f"Missing required parameter: '{param}'."
        raise Refused(error(400, message, param=param, code="missing_required_parameter"), chat.model)
    try:
        schemas.check(named.schema_, schemas.OPENAI_STRICT if named.strict else schemas.LENIENT)
    except schemas.SchemaError as refusal:
        message = f"Invalid schema for response_format '{named.name}': {refusal}"
        raise Refused(error(400, message, param="response_format"), chat.model) from None
    return named.schema_


def _any_object(chat: Chat) -> dict[str, Any]:
    if not any("json" in message.text.lower() for message in chat.messages):
        message = (
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        )
        raise Refused(error(400, message, param="messages"), chat.model)
    return {"type": "object"}


def read_embeddings(account: SimulatedAccount, body: Any) -> EmbedAsk:
    """Check a body of POST /v1/embeddings. Raises Refused."""
    name = _model_name(body)
    try:
        request = Embeddings.model_validate(body)
    except ValidationError as failure:
        raise _invalid(failure, name) from None
    model = _find(account, name, Service.EMBEDDINGS)
    texts = _texts(request.input)
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


def _texts(given: str | list[str] | list[int] | list[list[int]]) -> tuple[str, ...]:
    """The texts to embed. Token ids stand for four characters each, which is what a token counts for here."""
    if isinstance(given, str):
        return (given,)
    ids = [each for each in given if isinstance(each, int)]
    if ids:
        return (_spelled(ids),)
    return tuple(each if isinstance(each, str) else _spelled(each) for each in given if not isinstance(each, int))


def _spelled(ids: list[int]) -> str:
    return "".join(np.base_repr(each, 36).zfill(4) for each in ids)
