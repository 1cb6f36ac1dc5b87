"""Classifies Anthropic's error bodies: `{"type": "error", "error": {type, message, details}}`.

Source: the error types and `details.error_code` classes of the SDK (anthropic 2.12).
"""

import re
from collections.abc import Mapping

from hab_ray.errors import CallError
from hab_ray.providers import error_rules as means
from hab_ray.providers.base import JsonObject
from hab_ray.providers.error_rules import ErrorReport, Rules

_BLOCKED = re.compile(r"blocked by (our )?content filter", re.I)
_CLOSED = re.compile(r"\b(organization|account|workspace) (has been|is) (disabled|suspended|closed)", re.I)
_REGION = re.compile(r"\b(countr(y|ies)|regions?|territor(y|ies))\b|^request not allowed", re.I)
_MODEL = re.compile(r"\bmodel\b", re.I)
_BAD_REQUEST = 400


def _denied(report: ErrorReport) -> CallError:
    """One error type for three cases: a model that this key may not use, a closed account, an unserved region."""
    if _REGION.search(report.message) and not _MODEL.search(report.message):
        return means.region_not_served(report)
    return means.closed(report) if _CLOSED.search(report.message) else means.unknown_model(report)


_RULES = Rules(
    codes={
        "enforced_spend_limit_reached": means.no_quota,
        "contract_spend_limit_reached": means.no_quota,
        "linked_organization_spend_limit_reached": means.no_quota,
        "linked_organization_billing_unavailable": means.no_quota,
        "billing_error": means.no_quota,
        "organization_on_hold": means.closed,
        "organization_type_not_supported": means.bad_key,
        "authentication_error": means.bad_key,
        "permission_error": _denied,
        "forbidden": _denied,
        "not_found_error": means.unknown_model,
        "request_too_large": means.too_long,
        "rate_limit_error": means.rate_limited,
        "overloaded_error": means.overloaded,
        "timeout_error": means.timed_out,
        "api_error": means.server_fault,
    },
    words=(
        (re.compile(r"credit balance is too low|API usage limits", re.I), means.no_quota),
        (_CLOSED, means.closed),
        (re.compile(r"prompt is too long", re.I), means.too_long),
        (re.compile(r"exceeds? .{0,40}context", re.I), means.context_full),
        (
            re.compile(
                r"^(temperature|top_p|top_k|max_tokens|thinking|output_config|output_format)\b|does not support effort"
                r"|Extra inputs are not permitted|deprecated for this model|not supported (by|for|with) this model"
                r"|cannot both be specified|^anthropic-version|maximum allowed number of output tokens",
                re.I,
            ),
            means.setting_refused,
        ),
    ),
)


def blocked(body: JsonObject) -> str | None:
    """Return the vendor's message if a body says that the content was blocked, else None."""
    message = str(_error_object(body).get("message") or "")
    return message if body.get("type") == "error" and _BLOCKED.search(message) else None


def error_status(body: JsonObject) -> int | None:
    """Return the status of an error body, which some gateways send with HTTP 200; None for an answer."""
    if not body.get("error") or body.get("content"):
        return None
    error = _error_object(body)
    return _BAD_REQUEST if error.get("type") == "invalid_request_error" else means.stated_status(error.get("code"))


def classify(status: int, body: JsonObject, retry_after_s: float | None) -> CallError:
    """Return the error that a body means; errored results of a batch have the same bodies without a status."""
    error = _error_object(body)
    details = error.get("details")
    specific = details.get("error_code") if isinstance(details, Mapping) else None
    codes = tuple(str(code) for code in (specific, error.get("type")) if code)
    return _RULES.meaning(ErrorReport(status, codes, str(error.get("message") or "no message"), retry_after_s))


def _error_object(body: JsonObject) -> JsonObject:
    error = body.get("error")
    return error if isinstance(error, Mapping) else {"message": error}
