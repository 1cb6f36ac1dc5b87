"""What OpenAI and the endpoints that speak its protocol mean by their error bodies.

Shapes seen: `{"error": {message, type, param, code}}` (OpenAI, llama.cpp, Together), the same with a numeric
code and `metadata` (OpenRouter), `{"error": "words", "code": "words"}` (xAI), the problem itself (older vLLM,
Mistral), `{"detail": [{loc, msg}]}` (whatever FastAPI checks: Mistral, vLLM).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hab_ray.errors import CallError, FailureKind, RowError
from hab_ray.providers.base import JsonObject
from hab_ray.providers.refusals import (
    Problem,
    Rules,
    bad_key,
    closed,
    context_full,
    no_model,
    no_quota,
    not_taken,
    overloaded,
    timed_out,
    too_long,
)

_BLOCKED = {
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
    "bio_policy",
    "cyber_policy",
    "misalignment_policy_violation",
}
_BLOCKED_WORDS = re.compile(r"\bviolates usage guidelines\b|\bSAFETY_CHECK_TYPE_", re.I)
_CUT = re.compile(r"could not finish the message because max_tokens or model output limit was reached", re.I)
_SETTINGS = {
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "response_format",
    "encoding_format",
    "dimensions",
}
_RULES = Rules(
    codes={
        "insufficient_quota": no_quota,
        "billing_hard_limit_reached": no_quota,
        "billing_not_active": no_quota,
        "credit_balance_exhausted": no_quota,
        "usage_limit_exceeded": no_quota,
        "project_spend_limit_exceeded": no_quota,
        "organization_spend_limit_exceeded": no_quota,
        "organization_usage_limit_exceeded": no_quota,
        "invalid_api_key": bad_key,
        "account_deactivated": closed,
        "access_terminated": closed,
        "organization_restricted": closed,
        "mismatched_organization": bad_key,
        "unsupported_country_region_territory": bad_key,
        "model_not_found": no_model,
        "model_not_available": no_model,
        "model_decommissioned": no_model,
        "unsupported_model": no_model,
        "invalid_model": no_model,
        "unsupported_parameter": not_taken,
        "unsupported_value": not_taken,
        "unknown_parameter": not_taken,
        "integer_above_max_value": not_taken,
        "integer_below_min_value": not_taken,
        "decimal_above_max_value": not_taken,
        "decimal_below_min_value": not_taken,
        "context_length_exceeded": context_full,
        "exceed_context_size_error": context_full,
        "string_above_max_length": too_long,
        "slow_down": overloaded,
        "server_overloaded": overloaded,
        "flex_unavailable": overloaded,
        "request_timeout": timed_out,
    },
    words=(
        (
            re.compile(
                r"used all available credits|monthly spending limit|\bkey limit exceeded|have any credits"
                r"|insufficient (credits|balance|funds)|(credit|spend(ing)?) (limit|cap) (exceeded|reached)",
                re.I,
            ),
            no_quota,
        ),
        (
            re.compile(r"\b(organization|account|team|workspace) (has been|is|was) (disabled|suspended|blocked)", re.I),
            closed,
        ),
        (re.compile(r"(incorrect|invalid) api[ _]key", re.I), bad_key),
        (
            re.compile(r"\bnot a valid model|\binvalid model\b|\bmodel\b.{0,80}\b(does not exist|not found)", re.I),
            no_model,
        ),
        (re.compile(r"^request too large", re.I), too_long),
        (re.compile(r"maximum context length|exceeds the available context size", re.I), context_full),
        (
            re.compile(
                r"^unrecognized request argument|tokens'? is too large: |max_(completion_)?tokens`? must be less"
                r"|range of max_tokens|reasoning_effort|\bresponse_format\b",
                re.I,
            ),
            not_taken,
        ),
    ),
)


def blocked(body: JsonObject) -> str | None:
    """The vendor's words where an error body says that it blocked the content; None for any other body.

    HTTP 400 with a code (OpenAI), 403 with the moderation's reasons (OpenRouter) or with its failed check (xAI).
    """
    problem = _problem_object(body)
    metadata = problem.get("metadata")
    moderated = isinstance(metadata, Mapping) and bool(metadata.get("reasons"))
    words = str(problem.get("message") or problem.get("code") or "")
    if moderated or str(problem.get("code")) in _BLOCKED or (body.get("error") and _BLOCKED_WORDS.search(words)):
        return words
    return None


def cut_off(body: JsonObject) -> bool:
    """Whether an error body (HTTP 400) says that the model worked and ran out of output before it had said anything."""
    return bool(body.get("error")) and bool(_CUT.search(str(_problem_object(body).get("message") or "")))


def is_answer(body: JsonObject) -> bool:
    """Whether an error body is the model's answer to this one request: blocked, or cut off."""
    return blocked(body) is not None or cut_off(body)


def classify(status: int, body: JsonObject, retry_after_s: float | None) -> CallError:
    """What an error body means, online or as a line of a batch's error file."""
    problem = _problem_object(body)
    codes = tuple(str(problem[name]) for name in ("code", "type") if problem.get(name) is not None)
    told = Problem(status, codes, str(problem.get("message") or "no message"), retry_after_s)
    meaning = _RULES.meaning(told)
    is_about_setting = str(problem.get("param") or "").split(".")[0] in _SETTINGS
    if is_about_setting and isinstance(meaning, RowError) and meaning.kind is FailureKind.BAD_REQUEST:
        return not_taken(told)
    return meaning


def error_status(body: JsonObject) -> int | None:
    """The status an error body names itself; some gateways send one under HTTP 200. None for an answer."""
    if not body.get("error") or body.get("choices") or "data" in body:
        return None
    code = _problem_object(body).get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else 502


def _problem_object(body: JsonObject) -> Mapping[str, Any]:
    problem = body.get("error")
    if isinstance(problem, Mapping):
        return problem
    if isinstance(problem, str):
        return {**body, "message": problem}
    return _first_detail(body.get("detail")) or body


def _first_detail(detail: object) -> Mapping[str, Any] | None:
    """The first thing that a server's check of the body found, with the field it is about."""
    if isinstance(detail, str):
        return {"message": detail}
    first = detail[0] if isinstance(detail, list) and detail else None
    if not isinstance(first, Mapping):
        return None
    where = [str(step) for step in first.get("loc") or [] if step != "body"]
    return {"message": f"{'.'.join(where)}: {first.get('msg')}", "param": ".".join(where)}
