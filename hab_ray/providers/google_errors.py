"""What Gemini means by its error bodies: `{"error": {code, message, status, details: [...]}}`.

A 429 names its quota in `QuotaFailure`: one a minute heals, one a day or of size 0 does not, whatever wait
`RetryInfo` names beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hab_ray.errors import CallError, FailureKind, ModelError
from hab_ray.providers.base import JsonObject
from hab_ray.providers.http import duration_s
from hab_ray.providers.refusals import (
    Problem,
    Rules,
    bad_key,
    closed,
    no_model,
    no_quota,
    not_taken,
    overloaded,
    server_fault,
    timed_out,
    too_fast,
    too_long,
)

_SPENT = re.compile(r"prepa(?:id|yment)\w* credits|credits are depleted|spending cap|spend limit", re.I)
_NO_LIMIT = re.compile(r"\blimit: 0\b")


def _exhausted(problem: Problem) -> CallError:
    """A rate limit, or money: the vendor has one code for both."""
    return no_quota(problem) if _SPENT.search(problem.message) else too_fast(problem)


_RULES = Rules(
    codes={
        "RESOURCE_EXHAUSTED": _exhausted,
        "CONSUMER_SUSPENDED": closed,
        "BILLING_DISABLED": no_quota,
        "API_KEY_INVALID": bad_key,
        "UNAUTHENTICATED": bad_key,
        "PERMISSION_DENIED": bad_key,
        "NOT_FOUND": no_model,
        "UNAVAILABLE": overloaded,
        "DEADLINE_EXCEEDED": timed_out,
        "INTERNAL": server_fault,
        "ABORTED": server_fault,
        "CANCELLED": server_fault,
    },
    words=(
        (re.compile(r"free tier|enable billing", re.I), no_quota),
        (re.compile(r"unexpected model name format", re.I), no_model),
        (re.compile(r"API key (not valid|expired)|location is not supported", re.I), bad_key),
        (re.compile(r"exceeds the maximum number of tokens|payload size exceeds", re.I), too_long),
        (
            re.compile(
                r"not supported for this model|^Unsupported value|only works in thinking mode"
                r"|thinking[ _]?(budget|level|config)|Unknown name|maxOutputTokens must be"
                r"|max_output_tokens|generation_?config|\b(temperature|top_?p) .{0,40}\brange\b",
                re.I,
            ),
            not_taken,
        ),
    ),
)


def classify(status: int, body: JsonObject, retry_after_s: float | None) -> CallError:
    """What an error body means, online or as the `error` of a batch's result line."""
    error = body.get("error", body)
    error = error if isinstance(error, Mapping) else {"message": error}
    told_details = error.get("details")
    details = (
        [detail for detail in told_details if isinstance(detail, Mapping)] if isinstance(told_details, list) else []
    )
    reasons = [str(detail["reason"]) for detail in details if detail.get("reason")]
    named = [str(error["status"])] if error.get("status") else []
    told = next((duration_s(str(detail["retryDelay"])) for detail in details if detail.get("retryDelay")), None)
    wait_s = retry_after_s if told is None else told
    problem = Problem(status, (*reasons, *named), str(error.get("message") or "no message"), wait_s)
    none_at_all = bool(_NO_LIMIT.search(problem.message))
    spent = [quota for quota, size in _quotas(details) if none_at_all or "PerDay" in quota or size == "0"]
    if spent or none_at_all:
        return _used_up(problem, spent)
    return _RULES.meaning(problem)


def _quotas(details: list[Mapping[str, object]]) -> Iterator[tuple[str, str]]:
    """The name and size of each quota that was exceeded."""
    for detail in details:
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else []:
            if not isinstance(violation, Mapping):
                continue
            yield str(violation.get("quotaId", "")), str(violation.get("quotaValue", ""))


def _used_up(problem: Problem, quotas: list[str]) -> CallError:
    """Stop what the quota belongs to: the project, or only this model."""
    if not quotas or not all("PerModel" in quota for quota in quotas):
        return no_quota(problem)
    return ModelError(
        FailureKind.NO_QUOTA,
        f"{problem}; daily quotas renew at midnight Pacific time: give the same command again then, or raise the quota",
    )
