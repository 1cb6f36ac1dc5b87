"""The requests of a large JSON body, one at a time, without holding the body in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import TextIOBase
from typing import Any

_WINDOW = 1 << 18
_START = re.compile(r'\s*\{\s*"requests"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_END = re.compile(r"\s*\]\s*\}\s*\Z")
_DECODER = json.JSONDecoder()


class NotRequests(ValueError):
    """The body is not {"requests": [...]}."""


def requests(body: TextIOBase) -> Iterator[tuple[str, Any]]:
    """The text and the value of each element. Raises NotRequests where the body is anything else."""
    window = body.read(_WINDOW)
    start = _START.match(window)
    if start is None:
        raise NotRequests("requests: Field required")
    position = start.end()
    while True:
        position = _BETWEEN.match(window, position).end()  # type: ignore[union-attr]
        try:
            value, end = _DECODER.raw_decode(window, position)
        except json.JSONDecodeError:
            more = body.read(max(_WINDOW, len(window)))
            if more:
                window, position = window[position:] + more, 0
                continue
            if _END.match(window, position):
                return
            raise NotRequests("The request body is not valid JSON") from None
        yield window[position:end], value
        position = end
