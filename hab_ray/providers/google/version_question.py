"""Which API version of Gemini takes our requests, asked with a request that is refused in any case and costs nothing.

`v1` is said to lack systemInstruction, responseMimeType and thinkingConfig, and `v1beta` may go one day: each is
believed only where it answers so.
"""

from __future__ import annotations

import re

from hab_ray.errors import CallError, RowError
from hab_ray.providers.base import Endpoint
from hab_ray.providers.google.connection import Connection
from hab_ray.providers.google.version import VERSIONS
from hab_ray.providers.http import StatusError

_UNKNOWN_FIELD = re.compile(r"Unknown name|Cannot find field|unknown field", re.I)
_NO_SUCH_PLACE = 404
# All that a sweep's requests may hold, and nothing to answer.
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
    """The first version that takes a request to a model (its wire name); None where no answer tells.

    Only a version that does not know the place or a field is passed over: a wrong key, an empty quota or a broken
    connection says nothing about versions.
    """
    connection = Connection(endpoint)
    try:
        for version in VERSIONS:
            try:
                await connection.send("POST", f"models/{model}:generateContent", _EMPTY, version)
            except StatusError as refused:
                if refused.status == _NO_SUCH_PLACE or _UNKNOWN_FIELD.search(str(refused)):
                    continue
                return version if isinstance(refused.error, RowError) else None
            except CallError:
                return None
            return version
    finally:
        await connection.close()
    return None
