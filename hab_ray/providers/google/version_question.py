"""Finds the API version of Gemini that accepts our requests, with an invalid request, which costs nothing.

`v1` reportedly lacks systemInstruction, responseMimeType and thinkingConfig, and `v1beta` may be removed one day, so
the endpoint itself is asked.
"""

import re

from hab_ray.errors import CallError, RowError
from hab_ray.providers.base import Endpoint
from hab_ray.providers.google import VERSIONS
from hab_ray.providers.google.connection import Connection
from hab_ray.providers.http import StatusError

_UNKNOWN_FIELD = re.compile(r"Unknown name|Cannot find field|unknown field", re.I)
_NOT_FOUND = 404
# Every field that a sweep's requests may have, but no content.
_EMPTY = {
    "contents": [],
    "systemInstruction": {"parts": [{"text": "."}]},
    "generationConfig": {
        "maxOutputTokens": 16,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
    },
}


async def taken_version(endpoint: Endpoint, model: str) -> str | None:
    """Return the first version that accepts a request to a model (its wire name), or None if that cannot be told.

    Only an unknown URL or field rules a version out: a wrong key, an exhausted quota or a broken connection says
    nothing about versions.
    """
    connection = Connection(endpoint)
    try:
        for version in VERSIONS:
            try:
                await connection.send("POST", f"models/{model}:generateContent", _EMPTY, version)
            except StatusError as refused:
                if refused.status == _NOT_FOUND or _UNKNOWN_FIELD.search(str(refused)):
                    continue
                return version if isinstance(refused.error, RowError) else None
            except CallError:
                return None
            return version
    finally:
        await connection.close()
    return None
