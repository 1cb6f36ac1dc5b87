"""What Gemini means by its error bodies: `{"error": {code, message, status, details: [...]}}`.

A 429 names its quota in `QuotaFailure`: a quota per minute recovers, one per day or of size 0 does not, even if
`RetryInfo` names a wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hab_ray.errors import CallError, FailureKind, ModelError
from hab_ray.providers import error_rules as means
from hab_ray.providers.base import JsonObject
from hab_ray.providers.error_rules import GRPC_CODES, ErrorReport, Rules
from hab_ray.providers.http import duration_s

_SPENT = re.compile(r"prepa(?:id|yment)\w* credits|credits are depleted|spending cap|spend limit", re.I)
_NO_LIMIT = re.compile(r"\blimit: 0\b")
_LOWEST_ERROR, _UNKNOWN = 400, 500


def _exhausted(report: ErrorReport) -> CallError:
    """A rate limit, or money: the vendor has one code for both."""
    return means.no_quota(report) if _SPENT.search(report.message) else means.too_fast(report)


_RULES = Rules(
    codes={
        "RESOURCE_EXHAUSTED": _exhausted,
        "CONSUMER_SUSPENDED": means.closed,
        "BILLING_DISABLED": means.no_quota,
        "API_KEY_INVALID": means.bad_key,
        "UNAUTHENTICATED": means.bad_key,
        "PERMISSION_DENIED": means.bad_key,
        "NOT_FOUND": means.no_model,
        "UNAVAILABLE": means.overloaded,
        "DEADLINE_EXCEEDED": means.timed_out,
        "INTERNAL": means.server_fault,
        "ABORTED": means.server_fault,
        "CANCELLED": means.server_fault,
    },
    words=(
        (re.compile(r"free tier|enable billing", re.I), means.no_quota),
        (re.compile(r"unexpected model name format", re.I), means.no_model),
        (re.compile(r"API key (not valid|expired)|location is not supported", re.I), means.bad_key),
        (re.compile(r"exceeds the maximum number of tokens|payload size exceeds", re.I), means.too_long),
        (
            re.compile(
                r"not supported for this model|^Unsupported value|only works in thinking mode"
                r"|thinking[ _]?(budget|level|config)|Unknown name|maxOutputTokens must be"
                r"|\bschema\b.{0,80}\b(depth|nest(ed|ing)|too (many|deep|complex))"
                r"|max_output_tokens|generation_?config|\b(temperature|top_?p) .{0,40}\brange\b",
                re.I,
            ),
            means.not_taken,
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
    named_wait_s = next((duration_s(str(detail["retryDelay"])) for detail in details if detail.get("retryDelay")), None)
    wait_s = retry_after_s if named_wait_s is None else named_wait_s
    report = ErrorReport(status, (*reasons, *named), str(error.get("message") or "no message"), wait_s)
    none_at_all = bool(_NO_LIMIT.search(report.message))
    spent = [quota for quota, size in _quotas(details) if none_at_all or "PerDay" in quota or size == "0"]
    if spent or none_at_all:
        return _used_up(report, spent)
    return _RULES.meaning(report)


def classify_status(status: JsonObject) -> CallError:
    """What a status object of a batch or its results means: its code is gRPC's, in some an HTTP status or none."""
    code = status.get("code")
    if code in GRPC_CODES:
        http_status, name = GRPC_CODES[code]
        return classify(http_status, {"error": {"status": name, **status}}, None)
    http_status = code if isinstance(code, int) and code >= _LOWEST_ERROR else _UNKNOWN
    return classify(http_status, {"error": status}, None)


def _quotas(details: list[Mapping[str, object]]) -> Iterator[tuple[str, str]]:
    """The name and size of each quota that was exceeded."""
    for detail in details:
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else []:
            if not isinstance(violation, Mapping):
                continue
            yield str(violation.get("quotaId", "")), str(violation.get("quotaValue", ""))


def _used_up(report: ErrorReport, quotas: list[str]) -> CallError:
    """Stop what the quota belongs to: the project, or only this model."""
    if not quotas or not all("PerModel" in quota for quota in quotas):
        return means.no_quota(report)
    return ModelError(
        FailureKind.NO_QUOTA,
        f"{report}; daily quotas renew at midnight Pacific time: give the same command again then, or raise the quota",
    )
