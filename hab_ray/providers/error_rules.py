"""Classifies a vendor's error by its code, else by known words, else by HTTP status.

Codes come first because one status has many meanings: a 429 may mean "slow down" or "no money left". Words decide only
if no code is known. Each vendor's `errors.py` has its own tables.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hab_ray.errors import (
    CallError,
    FailureKind,
    ModelError,
    Overloaded,
    ProviderError,
    RateLimited,
    RowError,
    TransientError,
)
from hab_ray.providers.http import intercepted, is_page

_MAX_TEXT = 500
_STATUSES_OF_PROXIES = frozenset({408, 413, 429})
# The output limit and the context length, as servers and vendors word them.
_ANSWER = re.compile(
    r"max_(?:completion_)?tokens'? is too large: (\d{1,18})|\b(\d{1,18})(?: tokens)? (?:in|for) the completion"
    r"|requested (\d{1,18}) output tokens|\b\d+ \+ (\d{1,18}) > \d",
    re.I,
)
_CONTEXT = re.compile(r"context (?:length|window|size)\D{0,20}(\d{1,18})|\b\d+ \+ \d+ > (\d{1,18})", re.I)
_STATUS, _BAD_GATEWAY = re.compile(r"[45]\d\d", re.ASCII), 502
_RETIRED = re.compile(r"retired|deprecated|shut ?down|sunset|discontinued|no longer|end[- ]of[- ]life", re.I)


@dataclass(frozen=True)
class ErrorReport:
    """A vendor's error, online or in a batch's results. `codes`: the most specific first."""

    status: int
    codes: tuple[str, ...]
    message: str
    retry_after_s: float | None = None

    def __str__(self) -> str:
        return f"HTTP {self.status} {'/'.join(self.codes)}: {self.message}"[:_MAX_TEXT]


Meaning = Callable[[ErrorReport], CallError]


def _stops_provider(kind: FailureKind, remedy: str) -> Meaning:
    return lambda report: ProviderError(kind, f"{report}; {remedy}")


def _is_transient(kind: FailureKind) -> Meaning:
    return lambda report: TransientError(kind, str(report), report.retry_after_s)


def _fails_row(kind: FailureKind) -> Meaning:
    return lambda report: RowError(kind, str(report))


no_quota = _stops_provider(
    FailureKind.NO_QUOTA, "add credit or raise the account's spend limit, then run the same command again"
)
"""The account's money or quota is used up."""
bad_key = _stops_provider(
    FailureKind.BAD_KEY, "check the key in the environment variable that the provider's key_env names"
)
"""The vendor rejects this key or account."""
closed = _stops_provider(
    FailureKind.BAD_KEY,
    "the vendor has closed or restricted this account: check its console, contact its support, or use the key of "
    "another account",
)
"""The vendor has closed or restricted the account."""
region_not_served = _stops_provider(
    FailureKind.BAD_KEY,
    "the vendor accepts no key from the region that this machine is in: run from another region, or reach the model "
    "through another provider",
)
"""The vendor does not serve the country or region that the requests come from."""
bad_url = _stops_provider(
    FailureKind.BAD_REQUEST, "there is no API at the provider's url: correct it (providers.<name>.url)"
)
"""The url leads to a web site and not to an API."""
redirected = _stops_provider(
    FailureKind.BAD_REQUEST,
    "the provider's url redirects to another address, and redirects are not followed, because key and prompts would be "
    "sent there: give the final address (providers.<name>.url), or check for a proxy or a login page of the network",
)
"""The url redirects. Redirects are not followed: keys, headers and prompts would go to an address nobody chose."""
timed_out = _is_transient(FailureKind.TIMEOUT)
"""The vendor gave up before the model was done."""
server_fault = _is_transient(FailureKind.SERVER)
"""The vendor's own failure."""
too_long = _fails_row(FailureKind.TOO_LONG)
"""This request is longer than the model or the account accepts."""
bad_request = _fails_row(FailureKind.BAD_REQUEST)
"""This request will never be accepted."""
CHECK_MODEL = "check the model's wire name and that the key may use this model"


def unknown_model(report: ErrorReport) -> CallError:
    """The model is unknown, retired, or not available to this key."""
    if _RETIRED.search(report.message):
        return ModelError(FailureKind.MODEL_RETIRED, f"{report}; choose a model that is still served")
    return ModelError(FailureKind.MODEL_UNKNOWN, f"{report}; {CHECK_MODEL}")


def setting_refused(report: ErrorReport) -> CallError:
    """The model refuses a setting: every call to it would fail, and its catalogue entry is wrong.

    Rows stay open instead of failing permanently, because correcting the catalogue does not change a call's key.
    """
    return ModelError(
        FailureKind.BAD_REQUEST,
        f"{report}; the model refuses a setting: change it in the sweep (temperature, top_p, effort, max_tokens), or "
        "correct the model's entry under providers.<name>.models (sampling, thinking, thinking_reserve, "
        "output_limit_field, json_schema, api_version)",
    )


def context_full(report: ErrorReport) -> CallError:
    """Request and output limit together exceed the context.

    If the output limit is more than half of the context, the limit is at fault, and every call would fail.
    """
    answer, context = _first_number(_ANSWER, report), _first_number(_CONTEXT, report)
    if answer is None or context is None or 2 * answer <= context:
        return too_long(report)
    return ModelError(
        FailureKind.BAD_REQUEST,
        f"{report}; the output limit does not fit the model's context: lower max_tokens in the sweep, or "
        "thinking_reserve in the model's entry under providers.<name>.models, or serve it with a longer context",
    )


def _first_number(pattern: re.Pattern[str], report: ErrorReport) -> int | None:
    match = pattern.search(report.message)
    return int(next(group for group in match.groups() if group)) if match else None


def rate_limited(report: ErrorReport) -> CallError:
    """A rate limit is exceeded; waiting helps."""
    return RateLimited(str(report), report.retry_after_s)


def overloaded(report: ErrorReport) -> CallError:
    """The vendor has no capacity at the moment."""
    return Overloaded(str(report), report.retry_after_s)


def web_page(report: ErrorReport) -> CallError:
    """The response is a web page, so the error concerns neither row nor model."""
    return bad_url(report) if report.status == 404 else intercepted(str(report))


_BY_STATUS: Mapping[int, Meaning] = {
    401: bad_key,
    402: no_quota,
    403: unknown_model,
    404: unknown_model,
    408: timed_out,
    409: server_fault,
    413: too_long,
    424: server_fault,  # Bedrock's and Hugging Face's: the model failed
    425: server_fault,
    429: rate_limited,
    498: overloaded,  # Groq's flex tier
    499: server_fault,
    503: overloaded,
    504: timed_out,
    524: timed_out,  # Cloudflare's: the vendor has the request, and its answer would have come too late
    529: overloaded,
}


def stated_status(code: object) -> int:
    """Return the HTTP status that an error names as its code, where it comes with HTTP 200; 502 if it names none."""
    return int(str(code)) if _STATUS.fullmatch(str(code)) else _BAD_GATEWAY


# HTTP status and name of each gRPC code in status objects. Source: google/rpc/code.proto.
GRPC_CODES = {
    1: (499, "CANCELLED"),
    2: (500, "UNKNOWN"),
    3: (400, "INVALID_ARGUMENT"),
    4: (504, "DEADLINE_EXCEEDED"),
    5: (404, "NOT_FOUND"),
    6: (409, "ALREADY_EXISTS"),
    7: (403, "PERMISSION_DENIED"),
    8: (429, "RESOURCE_EXHAUSTED"),
    9: (400, "FAILED_PRECONDITION"),
    10: (409, "ABORTED"),
    11: (400, "OUT_OF_RANGE"),
    12: (501, "UNIMPLEMENTED"),
    13: (500, "INTERNAL"),
    14: (503, "UNAVAILABLE"),
    15: (500, "DATA_LOSS"),
    16: (401, "UNAUTHENTICATED"),
}


@dataclass(frozen=True)
class Rules:
    """One vendor's codes and words. Words are ignored in a server's own failures (5xx)."""

    codes: Mapping[str, Meaning]
    words: Sequence[tuple[re.Pattern[str], Meaning]]

    def meaning(self, report: ErrorReport) -> CallError:
        """Return the error, whose class says what follows for row, model and provider."""
        if 300 <= report.status < 400:
            return redirected(report)
        if report.status < 500 and report.status not in _STATUSES_OF_PROXIES and is_page(report.message):
            return web_page(report)
        for code in report.codes:
            if code in self.codes:
                return self.codes[code](report)
        if report.status < 500:
            for pattern, meaning in self.words:
                if pattern.search(report.message):
                    return meaning(report)
        default = server_fault if report.status >= 500 else bad_request
        return _BY_STATUS.get(report.status, default)(report)
