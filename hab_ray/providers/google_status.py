"""Status objects `{code, message, details}`, as Gemini puts them into batches and their results: the code is gRPC's."""

from __future__ import annotations

from hab_ray.errors import CallError
from hab_ray.providers.base import JsonObject
from hab_ray.providers.google_errors import classify
from hab_ray.providers.grpc_codes import CODES

_LOWEST_ERROR, _UNKNOWN = 400, 500


def meaning(error: JsonObject) -> CallError:
    """What a status object says. Some hold an HTTP status as their code, or none at all."""
    code = error.get("code")
    if code in CODES:
        status, name = CODES[code]
        return classify(status, {"error": {"status": name, **error}}, None)
    return classify(code if isinstance(code, int) and code >= _LOWEST_ERROR else _UNKNOWN, {"error": error}, None)
