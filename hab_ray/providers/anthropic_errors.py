"""What Anthropic means by its error bodies: `{"type": "error", "error": {type, message, details}}`.

Source: the error types and `details.error_code` classes of the SDK (anthropic 2.12).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hab_ray.errors import CallError
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
    server_fault,
    timed_out,
    too_fast,
    too_long,
)

_BLOCKED = re.compile(r"blocked by (our )?content filter", re.I)
_CLOSED = re.compile(r"\b(organization|account|workspace) (has been|is) (disabled|suspended|closed)", re.I)


def _denied(problem: Problem) -> CallError:
    """A model that this key may not use, or an account that is closed: the vendor has one type for both."""
    return closed(problem) if _CLOSED.search(problem.message) else no_model(problem)


_RULES = Rules(
    codes={
        "enforced_spend_limit_reached": no_quota,
        "contract_spend_limit_reached": no_quota,
        "linked_organization_spend_limit_reached": no_quota,
        "linked_organization_billing_unavailable": no_quota,
        "billing_error": no_quota,
        "organization_on_hold": closed,
        "organization_type_not_supported": bad_key,
        "authentication_error": bad_key,
        "permission_error": _denied,
        "not_found_error": no_model,
        "request_too_large": too_long,
        "rate_limit_error": too_fast,
        "overloaded_error": overloaded,
        "timeout_error": timed_out,
        "api_error": server_fault,
    },
    words=(
        (re.compile(r"credit balance is too low|API usage limits", re.I), no_quota),
        (_CLOSED, closed),
        (re.compile(r"prompt is too long", re.I), too_long),
        (re.compile(r"exceeds? .{0,40}context", re.I), context_full),
        (
            re.compile(
                r"^(temperature|top_p|top_k|max_tokens|thinking|output_config|output_format)\b|does not support effort"
                r"|Extra inputs are not permitted|deprecated for this model|not supported (by|for|with) this model"
                r"|cannot both be specified|^anthropic-version|maximum allowed number of output tokens",
                re.I,
            ),
            not_taken,
        ),
    ),
)


def blocked(body: JsonObject) -> str | None:
    """The vendor's words where an error body says that it blocked the content; None for any other body."""
    message = str(_problem_object(body).get("message") or "")
    return message if body.get("type") == "error" and _BLOCKED.search(message) else None


def classify(status: int, body: JsonObject, retry_after_s: float | None) -> CallError:
    """What an error body means; an errored result of a batch has the same body and no status of its own (400)."""
    problem = _problem_object(body)
    details = problem.get("details")
    particular = details.get("error_code") if isinstance(details, Mapping) else None
    codes = tuple(str(code) for code in (particular, problem.get("type")) if code)
    return _RULES.meaning(Problem(status, codes, str(problem.get("message") or "no message"), retry_after_s))


def _problem_object(body: JsonObject) -> JsonObject:
    problem = body.get("error")
    return problem if isinstance(problem, Mapping) else {"message": problem}
