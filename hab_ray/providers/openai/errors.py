"""Classifies the error bodies of OpenAI and of endpoints with its protocol.

Known shapes: `{"error": {message, type, param, code}}` (OpenAI, llama.cpp, Together), the same with a numeric code and
`metadata` (OpenRouter), `{"error": "words", "code": "words"}` (xAI), the error object itself (older vLLM, Mistral),
`{"detail": [{loc, msg}]}` (FastAPI's validation: Mistral, vLLM), a list of errors as `errors` or `error` (Cloudflare).
"""

import re
from collections.abc import Mapping
from typing import Any

from hab_ray.errors import CallError, FailureKind, RowError
from hab_ray.providers import error_rules as means
from hab_ray.providers.base import JsonObject
from hab_ray.providers.error_rules import ErrorReport, Rules

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
        "insufficient_quota": means.no_quota,
        "billing_hard_limit_reached": means.no_quota,
        "billing_not_active": means.no_quota,
        "credit_balance_exhausted": means.no_quota,
        "usage_limit_exceeded": means.no_quota,
        "project_spend_limit_exceeded": means.no_quota,
        "organization_spend_limit_exceeded": means.no_quota,
        "organization_usage_limit_exceeded": means.no_quota,
        "personal-team-blocked:spending-limit": means.no_quota,
        "usage_limit_reached": means.no_quota,
        "exceeded_current_quota_error": means.no_quota,
        "budget_exceeded": means.no_quota,
        "terminal_quota_exhausted": means.no_quota,
        "invalid_url": means.bad_url,
        "invalid_api_key": means.bad_key,
        "expired_key": means.bad_key,
        "token_not_found_in_db": means.bad_key,
        "account_deactivated": means.closed,
        "access_terminated": means.closed,
        "organization_restricted": means.closed,
        "mismatched_organization": means.bad_key,
        "unsupported_country_region_territory": means.region_not_served,
        "key_model_access_denied": means.unknown_model,
        "team_model_access_denied": means.unknown_model,
        "user_model_access_denied": means.unknown_model,
        "org_model_access_denied": means.unknown_model,
        "model_not_found": means.unknown_model,
        "model_not_available": means.unknown_model,
        "model_decommissioned": means.unknown_model,
        "unsupported_model": means.unknown_model,
        "invalid_model": means.unknown_model,
        "unsupported_parameter": means.setting_refused,
        "unsupported_value": means.setting_refused,
        "unknown_parameter": means.setting_refused,
        "integer_above_max_value": means.setting_refused,
        "integer_below_min_value": means.setting_refused,
        "decimal_above_max_value": means.setting_refused,
        "decimal_below_min_value": means.setting_refused,
        "context_length_exceeded": means.context_full,
        "exceed_context_size_error": means.context_full,
        "string_above_max_length": means.too_long,
        "slow_down": means.overloaded,
        "server_overloaded": means.overloaded,
        "flex_unavailable": means.overloaded,
        "request_timeout": means.timed_out,
    },
    words=(
        (
            re.compile(
                r"used all available credits|monthly (spending|usage) limit|\bkey limit exceeded|have any credits"
                r"|ran out of credits|out of call volume quota|free usage quota exceeded|\bbudget has been exceeded"
                r"|\bexceeded(token)?budget\b"
                r"|insufficient (credits|balance|funds)|(credit|spend(ing)?) (limit|cap) (exceeded|reached)",
                re.I,
            ),
            means.no_quota,
        ),
        (
            re.compile(r"\b(organization|account|team|workspace) (has been|is|was) (disabled|suspended|blocked)", re.I),
            means.closed,
        ),
        (
            re.compile(
                r"(incorrect|invalid) api[ _]key|\b(api|your) key (has |is )?expired|\bexpired (api )?key\b", re.I
            ),
            means.bad_key,
        ),
        (re.compile(r"^invalid url \([A-Z]+ ", re.I), means.bad_url),
        (
            re.compile(
                r"\bnot a valid model|\binvalid model\b|\bmodel\b.{0,80}\b(does not exist|not found)"
                r"|\bmodel\b.{0,80}\bis not supported\. supported models|\bnot allowed to (access|call) model",
                re.I,
            ),
            means.unknown_model,
        ),
        (re.compile(r"^authentication error\b", re.I), means.bad_key),
        (re.compile(r"^request too large", re.I), means.too_long),
        (re.compile(r"maximum (context|prompt) length|exceeds the available context size", re.I), means.context_full),
        (
            re.compile(
                r"^unrecognized request argument|tokens'? is too large: |max_(completion_)?tokens`? must be less"
                r"|range of max_tokens|reasoning_effort|\bresponse_format\b"
                r"|does not support parameter|^argument not supported|\bUnsupportedParamsError\b"
                r"|\btop_p\W+cannot both be specified|grammar error: unimplemented keys"
                r"|json schema contains features not supported",
                re.I,
            ),
            means.setting_refused,
        ),
    ),
)


def blocked(body: JsonObject) -> str | None:
    """Return the vendor's message if a body says that the content was blocked, else None.

    HTTP 400 with a code (OpenAI), or 403 with the moderation's reasons (OpenRouter) or the failed check (xAI).
    """
    error = _error_object(body)
    metadata = error.get("metadata")
    moderated = isinstance(metadata, Mapping) and bool(metadata.get("reasons"))
    words = str(error.get("message") or error.get("code") or "")
    if moderated or str(error.get("code")) in _BLOCKED or (body.get("error") and _BLOCKED_WORDS.search(words)):
        return words
    return None


def cut_off(body: JsonObject) -> bool:
    """Whether an error body (HTTP 400) says that the model reached the output limit before any visible text."""
    return bool(body.get("error")) and bool(_CUT.search(str(_error_object(body).get("message") or "")))


def is_answer(body: JsonObject) -> bool:
    """Whether an error body is the answer to this one request: blocked, or cut off."""
    return blocked(body) is not None or cut_off(body)


def classify(status: int, body: JsonObject, retry_after_s: float | None) -> CallError:
    """Return the error that a body means, online or in a line of a batch's error file."""
    error = _error_object(body)
    codes = tuple(str(error[name]) for name in ("code", "type") if error.get(name) is not None)
    report = ErrorReport(status, codes, str(error.get("message") or "no message"), retry_after_s)
    meaning = _RULES.meaning(report)
    is_about_setting = str(error.get("param") or "").split(".")[0] in _SETTINGS
    if is_about_setting and isinstance(meaning, RowError) and meaning.kind is FailureKind.BAD_REQUEST:
        return means.setting_refused(report)
    return meaning


def error_status(body: JsonObject) -> int | None:
    """Return the status named in an error body, which some gateways send with HTTP 200; None for an answer.

    An error that is not below `error` is a message, in a body without an id. A failed batch may have an error too,
    beside its id and status.
    """
    error = _error_object(body)
    is_error = body.get("error") or ("id" not in body and isinstance(error.get("message"), str))
    if not is_error or body.get("choices") or "data" in body or {"id", "status"} <= body.keys():
        return None
    return means.stated_status(error.get("code"))


def _error_object(body: JsonObject) -> Mapping[str, Any]:
    error = body.get("error") or body.get("errors")
    if isinstance(error, list):
        error = next((one for one in error if isinstance(one, Mapping)), None)
    if isinstance(error, Mapping):
        return error
    if isinstance(error, str):
        return {**body, "message": error}
    return _first_detail(body.get("detail")) or body


def _first_detail(detail: object) -> Mapping[str, Any] | None:
    """Return the first error of a server's validation, with its field as `param`."""
    if isinstance(detail, str):
        return {"message": detail}
    first = detail[0] if isinstance(detail, list) and detail else None
    if not isinstance(first, Mapping):
        return None
    param = ".".join(str(step) for step in first.get("loc") or [] if step != "body")
    return {"message": f"{param}: {first.get('msg')}", "param": param}
