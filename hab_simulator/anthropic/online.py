"""Anthropic's wire protocol: messages and models."""

from collections.abc import Mapping
from datetime import timedelta
from math import ceil, isinf
from typing import Any

from hab_simulator.accounts import Service, SimulatedAccount
from hab_simulator.anthropic.bodies import error, read_messages
from hab_simulator.asks import Ask, ChatAsk, Finish, Refused, WireAnswer, compact
from hab_simulator.limits import Verdict
from hab_simulator.truth.answers import Mind

_CREATED = "2026-11-01T00:00:00Z"
_THOUSAND = 1000
_STOP = {Finish.DONE: "end_turn", Finish.LENGTH: "max_tokens", Finish.REFUSED: "refusal"}
_FAULTS = {
    400: ("invalid_request_error", "Invalid request."),
    408: ("timeout_error", "Request timed out."),
    409: ("api_error", "The request conflicts with another one."),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    500: ("api_error", "Internal server error"),
    502: ("api_error", "Bad gateway"),
    503: ("api_error", "Service unavailable"),
    504: ("timeout_error", "Gateway timeout"),
    529: ("overloaded_error", "Overloaded"),
}


def key(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """The key sent in either header, or an empty text."""
    return headers.get("x-api-key") or headers.get("Authorization", "").removeprefix("Bearer ").strip()


def bad_key(sent: str) -> WireAnswer:
    """401, for a key that is missing or not accepted."""
    if not sent:
        return error(401, "authentication_error", "x-api-key header is required")
    return error(401, "authentication_error", "invalid x-api-key")


def models(account: SimulatedAccount) -> WireAnswer:
    """`GET /v1/models`: the models that have a plain name, with their lifecycle."""
    data = [
        {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": _CREATED,
            "deprecated_at": _CREATED if model.retired else None,
            "retires_at": _CREATED if model.retired else None,
            "lifecycle": "retired" if model.retired else "active",
            "line": None,
            "max_input_tokens": model.context_tokens,
            "max_tokens": model.output_tokens,
            "capabilities": None,
        }
        for name, model in account.listed().items()
        if Service.CHAT in model.serves
    ]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return WireAnswer(200, compact({"data": data, "has_more": False, "first_id": first, "last_id": last}))


def no_json(path: str) -> Refused:
    """400, for a body that is no JSON."""
    return Refused(error(400, "invalid_request_error", "The request body is not valid JSON"))


def check(path: str, headers: Mapping[str, str], account: SimulatedAccount, body: Any) -> ChatAsk:
    """Check a request's body, sent online or in a batch. Raises Refused with the vendor's answer."""
    if path != "messages":
        raise Refused(error(404, "not_found_error", "Not Found"))
    return read_messages(account, headers, body)


def reply(mind: Mind, ask: Ask) -> WireAnswer:
    """The vendor's answer to a request that passed."""
    assert isinstance(ask, ChatAsk)
    said = mind.say(ask)
    usage = said.bill.usage
    blocked = said.finish is Finish.REFUSED
    refusal = {"type": "refusal", "category": "general_harms", "explanation": said.text}
    content: list[dict[str, Any]] = []
    if usage.reasoning:
        content.append({"type": "thinking", "thinking": "", "signature": ask.identity.hex()})
    if said.text and not blocked:
        content.append({"type": "text", "text": said.text, "citations": None})
    body = {
        "id": f"msg_{ask.identity.hex()}",
        "type": "message",
        "role": "assistant",
        "model": mind.reported_name(ask),
        "content": content,
        "stop_reason": _STOP[said.finish],
        "stop_sequence": None,
        "stop_details": refusal if blocked else None,
        "container": None,
        "usage": {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": usage.output,
            "output_tokens_details": {"thinking_tokens": usage.reasoning},
            "server_tool_use": None,
            "service_tier": mind.service_tier,
        },
    }
    headers = {"request-id": f"req_{ask.identity.hex()}"}
    return WireAnswer(200, compact(body), headers, said.bill, said.exchange)


def limit_headers(verdict: Verdict) -> dict[str, str]:
    """`anthropic-ratelimit-*`, with resets as RFC 3339 times and tokens rounded to thousands."""
    headers: dict[str, str] = {}
    levels = {
        "requests": verdict.requests,
        "tokens": verdict.tokens,
        "input-tokens": verdict.tokens,
        "output-tokens": verdict.tokens,
    }
    for name, level in levels.items():
        if level is not None:
            left = level.remaining if name == "requests" else round(level.remaining / _THOUSAND) * _THOUSAND
            reset = verdict.at + timedelta(seconds=level.reset_s)
            headers[f"anthropic-ratelimit-{name}-limit"] = str(level.limit)
            headers[f"anthropic-ratelimit-{name}-remaining"] = str(left)
            headers[f"anthropic-ratelimit-{name}-reset"] = f"{reset:%Y-%m-%dT%H:%M:%SZ}"
    return headers


def too_fast(name: str, verdict: Verdict, says_retry_after: bool) -> WireAnswer:
    """429 for a request over a limit a minute."""
    message = f"This request would exceed your rate limit of {verdict.short} per minute for {name}."
    headers = limit_headers(verdict)
    if says_retry_after and not isinf(verdict.wait_s):
        headers["retry-after"] = str(ceil(verdict.wait_s))
    return error(429, "rate_limit_error", message, headers=headers)


def no_quota(name: str) -> WireAnswer:
    """429 without retry-after: the spend limit of the month is reached."""
    message = "Your organization has reached its monthly API usage threshold."
    return error(429, "rate_limit_error", message, code="enforced_spend_limit_reached")


def fault(status: int, retry_after_s: float | None) -> WireAnswer:
    """The vendor's words for a status that the fault plan asks for."""
    kind, message = _FAULTS[status]
    headers = {} if retry_after_s is None else {"retry-after": f"{retry_after_s:g}"}
    return error(status, kind, message, headers=headers)
