"""Classifies Gemini's error bodies: `{"error": {code, message, status, details: [...]}}`.

A 429 names its quota in `QuotaFailure`. A quota per minute recovers; one per day or of size 0 does not, even if
`RetryInfo` names a wait.
"""

import re
from collections.abc import Iterator, Mapping

from hab_ray.errors import CallError, FailureKind, ModelError
from hab_ray.providers import error_rules as means
from hab_ray.providers.base import JsonObject
from hab_ray.providers.error_rules import GRPC_CODES, ErrorReport, Rules
from hab_ray.providers.http import duration_s

_SPENT = re.compile(r"prepa(?:id|yment)\w* credits|credits are depleted|spending cap|spend limit", re.I)
_ZERO_LIMIT = re.compile(r"\blimit: 0\b")
_LOWEST_ERROR, _UNKNOWN = 400, 500


def _exhausted(report: ErrorReport) -> CallError:
    """One code for two cases: a rate limit, and no credit."""
    return means.no_quota(report) if _SPENT.search(report.message) else means.rate_limited(report)


_RULES = Rules(
    codes={
        "RESOURCE_EXHAUSTED": _exhausted,
        "CONSUMER_SUSPENDED": means.closed,
        "BILLING_DISABLED": means.no_quota,
        "API_KEY_INVALID": means.bad_key,
        "UNAUTHENTICATED": means.bad_key,
        "PERMISSION_DENIED": means.bad_key,
        "NOT_FOUND": means.unknown_model,
        "UNAVAILABLE": means.overloaded,
        "DEADLINE_EXCEEDED": means.timed_out,
        "INTERNAL": means.server_fault,
        "ABORTED": means.server_fault,
        "CANCELLED": means.server_fault,
    },
    words=(
        (re.compile(r"free tier|enable billing", re.I), means.no_quota),
        (re.compile(r"unexpected model name format", re.I), means.unknown_model),
        (re.compile(r"API key (not valid|expired)", re.I), means.bad_key),
        (re.compile(r"location is not supported", re.I), means.region_not_served),
        (re.compile(r"exceeds the maximum number of tokens|payload size exceeds", re.I), means.too_long),
        (
            re.compile(
                r"not supported for this model|^Unsupported value|only works in thinking mode"
                r"|thinking[ _]?(budget|level|config)|Unknown name|maxOutputTokens must be"
                r"|\bschema\b.{0,80}\b(depth|nest(ed|ing)|too (many|deep|complex))"
                r"|max_output_tokens|generation_?config|\b(temperature|top_?p) .{0,40}\brange\b",
                re.I,
            ),
            means.setting_refused,
        ),
    ),
)


def classify(status: int, body: JsonObject, retry_after_s: float | None) -> CallError:
    """Return the error that a body means, online or as the `error` of a batch's result line."""
    error = body.get("error", body)
    error = error if isinstance(error, Mapping) else {"message": error}
    details = _mappings(error.get("details"))
    codes = (*(detail.get("reason") for detail in details), error.get("status"))
    delay_s = next((duration_s(str(detail["retryDelay"])) for detail in details if detail.get("retryDelay")), None)
    report = ErrorReport(
        status,
        tuple(str(code) for code in codes if code),
        str(error.get("message") or "no message"),
        retry_after_s if delay_s is None else delay_s,
    )
    is_zero = bool(_ZERO_LIMIT.search(report.message))
    exhausted = [quota for quota, size in _quotas(details) if is_zero or "PerDay" in quota or size == "0"]
    if exhausted or is_zero:
        return _quota_exhausted(report, exhausted)
    return _RULES.meaning(report)


def classify_status(status: JsonObject) -> CallError:
    """Return the error that a status object of a batch or its results means.

    Its code is a gRPC code, or in some objects an HTTP status or missing.
    """
    code = status.get("code")
    if code in GRPC_CODES:
        http_status, name = GRPC_CODES[code]
        return classify(http_status, {"error": {"status": name, **status}}, None)
    http_status = code if isinstance(code, int) and code >= _LOWEST_ERROR else _UNKNOWN
    return classify(http_status, {"error": status}, None)


def _mappings(values: object) -> list[Mapping[str, object]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []


def _quotas(details: list[Mapping[str, object]]) -> Iterator[tuple[str, str]]:
    """Yield the name and size of each exceeded quota."""
    for detail in details:
        for violation in _mappings(detail.get("violations")):
            yield str(violation.get("quotaId", "")), str(violation.get("quotaValue", ""))


def _quota_exhausted(report: ErrorReport, quotas: list[str]) -> CallError:
    """Stop the owner of the quotas: the project, or only this model."""
    if not quotas or not all("PerModel" in quota for quota in quotas):
        return means.no_quota(report)
    return ModelError(
        FailureKind.NO_QUOTA,
        f"{report}; daily quotas renew at midnight Pacific time: run the same command again then, or raise the quota",
    )
