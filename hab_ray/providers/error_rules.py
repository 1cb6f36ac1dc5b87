"""What a vendor's error means: by its code first, then by known words, last by HTTP status.

Codes come first because one status carries many meanings: a 429 may mean "slow down" or "no money left".
Words decide only where a vendor sends no code; each vendor's `errors.py` holds its own tables.
"""

from __future__ import annotations

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
_PLAIN_STATUSES = frozenset({408, 413, 429})
# What an answer may take of a context, and the context itself, as servers and vendors put it.
_ANSWER = re.compile(
    r"max_(?:completion_)?tokens'? is too large: (\d{1,18})|\b(\d{1,18})(?: tokens)? (?:in|for) the completion"
    r"|requested (\d{1,18}) output tokens|\b\d+ \+ (\d{1,18}) > \d",
    re.I,
)
_CONTEXT = re.compile(r"context (?:length|window|size)\D{0,20}(\d{1,18})|\b\d+ \+ \d+ > (\d{1,18})", re.I)
_RETIRED = re.compile(r"retired|deprecated|shut ?down|sunset|discontinued|no longer|end[- ]of[- ]life", re.I)


@dataclass(frozen=True)
class ErrorReport:
    """An error in the vendor's words, online or in a batch's results. `codes`: the most specific first."""

    status: int
    codes: tuple[str, ...]
    message: str
    retry_after_s: float | None = None

    def __str__(self) -> str:
        return f"HTTP {self.status} {'/'.join(self.codes)}: {self.message}"[:_MAX_TEXT]


Meaning = Callable[[ErrorReport], CallError]


def _stops_provider(kind: FailureKind, remedy: str) -> Meaning:
    return lambda report: ProviderError(kind, f"{report}; {remedy}")


def _passes(kind: FailureKind) -> Meaning:
    return lambda report: TransientError(kind, str(report), report.retry_after_s)


def _of_the_row(kind: FailureKind) -> Meaning:
    return lambda report: RowError(kind, str(report))


no_quota = _stops_provider(
    FailureKind.NO_QUOTA, "add credit or raise the account's spend limit, then give the same command again"
)
"""The account's money or quota is used up."""
bad_key = _stops_provider(
    FailureKind.BAD_KEY, "check the key in the environment variable that the provider's key_env names"
)
"""The vendor does not let this key or account in."""
closed = _stops_provider(
    FailureKind.BAD_KEY,
    "the vendor has closed or restricted this account: see its console or ask its support, or use the key of another "
    "account",
)
"""The vendor has closed or restricted the account."""
not_served_here = _stops_provider(
    FailureKind.BAD_KEY,
    "the vendor serves neither key nor model from where this machine is: run from a region that it serves, or ask the "
    "model through another provider",
)
"""The vendor does not serve the country or region that the requests come from."""
bad_url = _stops_provider(FailureKind.BAD_REQUEST, "no API is at the provider's url: correct it (providers.<name>.url)")
"""There is a web site where the API should be."""
redirected = _stops_provider(
    FailureKind.BAD_REQUEST,
    "the provider's url redirects to another address, and redirects are not followed, because key and prompts would go "
    "along: give the address that is meant (providers.<name>.url), or see what stands in between (a proxy, a login "
    "page of the network)",
)
"""The url sends requests elsewhere. None is followed: keys, headers and prompts would go where nobody chose."""
timed_out = _passes(FailureKind.TIMEOUT)
"""The vendor gave up before the model was done."""
server_fault = _passes(FailureKind.SERVER)
"""The vendor's own failure."""
too_long = _of_the_row(FailureKind.TOO_LONG)
"""This request is longer than the model or the account ever takes."""
bad_request = _of_the_row(FailureKind.BAD_REQUEST)
"""This request will never be accepted."""


def no_model(report: ErrorReport) -> CallError:
    """The model is unknown, gone, or not for this key."""
    if _RETIRED.search(report.message):
        return ModelError(FailureKind.MODEL_RETIRED, f"{report}; choose a model that is still served")
    return ModelError(
        FailureKind.MODEL_UNKNOWN, f"{report}; check the model's wire name and that the key may use this model"
    )


def not_taken(report: ErrorReport) -> CallError:
    """The model refuses a setting: every call to it would fail, and its catalogue entry is wrong.

    Rows stay open rather than fail for good, because correcting the catalogue does not change a call's key.
    """
    return ModelError(
        FailureKind.BAD_REQUEST,
        f"{report}; the model refuses a setting: change it in the sweep (temperature, top_p, effort, max_tokens), or "
        "correct the model's entry under providers.<name>.models (sampling, thinking, thinking_reserve, "
        "output_limit_field, json_schema, api_version)",
    )


def context_full(report: ErrorReport) -> CallError:
    """Request and answer do not fit into the context together.

    Where the answer's limit alone takes more than half of it, the limit is at fault, and every call would fail.
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
    found = pattern.search(report.message)
    return int(next(group for group in found.groups() if group)) if found else None


def too_fast(report: ErrorReport) -> CallError:
    """Over a limit that time heals."""
    return RateLimited(str(report), report.retry_after_s)


def overloaded(report: ErrorReport) -> CallError:
    """The vendor has no capacity at the moment."""
    return Overloaded(str(report), report.retry_after_s)


def page(report: ErrorReport) -> CallError:
    """A web page where an answer should be: it says nothing of row or model."""
    return bad_url(report) if report.status == 404 else intercepted(str(report))


_BY_STATUS: Mapping[int, Meaning] = {
    401: bad_key,
    402: no_quota,
    403: no_model,
    404: no_model,
    408: timed_out,
    409: server_fault,
    413: too_long,
    429: too_fast,
    499: server_fault,
    503: overloaded,
    504: timed_out,
    529: overloaded,
}


# gRPC's codes in status objects: the HTTP status that each stands for, and its name. Source: google/rpc/code.proto.
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
    """One vendor's codes and words. Words are not looked at in a server's own failures (5xx)."""

    codes: Mapping[str, Meaning]
    words: Sequence[tuple[re.Pattern[str], Meaning]]

    def meaning(self, report: ErrorReport) -> CallError:
        """The error whose class says what follows for row, model and provider."""
        if 300 <= report.status < 400:
            return redirected(report)
        if report.status < 500 and report.status not in _PLAIN_STATUSES and is_page(report.message):
            return page(report)
        for code in report.codes:
            if code in self.codes:
                return self.codes[code](report)
        if report.status < 500:
            for pattern, meaning in self.words:
                if pattern.search(report.message):
                    return meaning(report)
        otherwise = server_fault if report.status >= 500 else bad_request
        return _BY_STATUS.get(report.status, otherwise)(report)
