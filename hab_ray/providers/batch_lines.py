"""The lines of a batch's file: one JSON object each, written compactly and read as they stream in.

Lines end at b"\\n" and nowhere else. U+2028 and its like, at which text is split elsewhere, may stand inside JSON
strings; in what is written here they are escaped.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from hab_ray.errors import CallError, TransientError
from hab_ray.providers.base import Endpoint, JsonObject, malformed, reading
from hab_ray.providers.batching import Line
from hab_ray.providers.http import json_object

Chunks = AsyncGenerator[bytes, None]
ReadId = Callable[[JsonObject], object]
ReadBody = Callable[[JsonObject], JsonObject]


def compact(record: JsonObject) -> bytes:
    """A record as one line of pure ASCII, without the newline."""
    return json.dumps(record, separators=(",", ":")).encode()


async def read_lines(
    endpoint: Endpoint, chunks: Chunks, read_id: ReadId, read_body: ReadBody
) -> AsyncGenerator[Line, None]:
    """The results in an endpoint's streamed file. `read_body` returns the body, or raises what the line reports."""
    async with aclosing(_split(chunks)) as lines:
        async for raw in lines:
            if raw.strip():
                yield _read_line(endpoint.body_without_key(raw), read_id, read_body)


def read_record(record: JsonObject, read_id: ReadId, read_body: ReadBody) -> Line:
    """One result. A line that names no call gets an empty id, so that it is counted."""
    try:
        with reading():
            custom_id = read_id(record)
        if not isinstance(custom_id, str) or not custom_id:
            raise malformed("a result line names no request")
    except TransientError as error:
        return Line("", error=error)
    try:
        with reading():
            return Line(custom_id, body=read_body(record))
    except CallError as error:
        return Line(custom_id, error=error)


def _read_line(raw: bytes, read_id: ReadId, read_body: ReadBody) -> Line:
    try:
        record = json_object(raw)
    except TransientError as error:
        return Line("", error=error)
    except RecursionError:
        return Line("", error=malformed("a result line nested too deeply"))
    return read_record(record, read_id, read_body)


async def _split(chunks: Chunks) -> AsyncGenerator[bytes, None]:
    pieces: list[bytes] = []
    async with aclosing(chunks):
        async for chunk in chunks:
            first, *others = chunk.split(b"\n")
            pieces.append(first)
            for other in others:
                yield b"".join(pieces)
                pieces = [other]
    yield b"".join(pieces)
