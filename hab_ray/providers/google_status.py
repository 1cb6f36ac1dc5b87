"""Status objects `{code, message, details}`, as Gemini puts them into batches and their results: the code is gRPC's."""

from __future__ import annotations

from hab_ray.errors import CallError
from hab_ray.providers.base import JsonObject
from hab_ray.providers.google_errors import classify

# Source: google/rpc/code.proto, which names the HTTP status of each code.
_CODES = {
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
_LOWEST_ERROR, _UNKNOWN = 400, 500


def meaning(error: JsonObject) -> CallError:
    """What a status object says. Some hold an HTTP status as their code, or none at all."""
    code = error.get("code")
    if code in _CODES:
        status, name = _CODES[code]
        return classify(status, {"error": {"status": name, **error}}, None)
    return classify(code if isinstance(code, int) and code >= _LOWEST_ERROR else _UNKNOWN, {"error": error}, None)
