"""The lines of a batch's file: one JSON object each, written compactly and read from a stream.

Only b"\\n" ends a line. JSON strings may hold U+2028 and similar characters, at which `str.splitlines` would split; the
lines written here escape them.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from hab_ray.errors import CallError, FailureKind, HabError, TransientError
from hab_ray.providers.base import BrokenReader, Endpoint, JsonObject, broken_reader, malformed, reading
from hab_ray.providers.batching import Line
from hab_ray.providers.http import MAX_BODY_MB, json_object
from hab_ray.resources import package_at_fault

Chunks = AsyncGenerator[bytes, None]
ReadId = Callable[[JsonObject], object]
ReadBody = Callable[[JsonObject], JsonObject]

# How long results may come, on the whole, more slowly than over the poorest line.
SLACK_S, MIN_BYTES_PER_S = 600.0, 4096
MAX_LINE_BYTES = MAX_BODY_MB << 20


def batch_line(fields: JsonObject, name: str, body: bytes) -> bytes:
    """Return a request as one line of ASCII, without the newline: these fields, and its JSON body under `name`."""
    return b'%b,"%b":%b}' % (json.dumps(fields, separators=(",", ":")).encode()[:-1], name.encode(), body)


async def read_lines(
    endpoint: Endpoint, chunks: Chunks, read_id: ReadId, read_body: ReadBody
) -> AsyncGenerator[Line, None]:
    """Yield the results in a streamed file. `read_body` returns the body, or raises the error that a line reports."""
    async with aclosing(_split(_steady(chunks, SLACK_S + endpoint.timeout_s))) as lines:
        async for raw in lines:
            if raw.strip():
                yield _read_line(endpoint.body_without_key(raw), read_id, read_body)


def read_record(record: JsonObject, read_id: ReadId, read_body: ReadBody) -> Line:
    """Read one result. A line that names no call gets an empty id, so that it is counted.

    Raises:
        BrokenReader: `read_body` is of another distribution, and its code failed.
    """
    try:
        with reading():
            custom_id = read_id(record)
            problem = record.get("error")
        if not isinstance(custom_id, str) or not custom_id:
            raise malformed(f"a result line names no request{f' ({problem})' if problem else ''}")
    except TransientError as error:
        return Line("", error=error)
    try:
        with reading():
            return Line(custom_id, body=_read_body(record, read_body))
    except BrokenReader:
        raise
    except CallError as error:
        return Line(custom_id, error=error)


def _read_body(record: JsonObject, read_body: ReadBody) -> JsonObject:
    try:
        body = read_body(record)
        if body is None:
            raise TypeError("the body of a result is read as None")
        if not isinstance(body, Mapping):
            raise malformed("the body of a result is not a JSON object")
        return body
    except HabError:
        raise
    except Exception as error:
        if package := package_at_fault(error, read_body):
            raise broken_reader(package, error) from error
        raise


def _read_line(raw: bytes, read_id: ReadId, read_body: ReadBody) -> Line:
    try:
        if len(raw) > MAX_LINE_BYTES:
            raise malformed(f"a line of more than {MAX_LINE_BYTES >> 20} MB")
        record = json_object(raw)
    except TransientError as error:
        return Line("", error=error)
    return read_record(record, read_id, read_body)


async def _steady(chunks: Chunks, slack_s: float) -> Chunks:
    """Pass on a download.

    Raises:
        TransientError: it drips: waiting for its chunks took `slack_s` more than they need at `MIN_BYTES_PER_S`.
    """
    left_s = slack_s
    async with aclosing(chunks):
        while True:
            asked = time.monotonic()
            try:
                async with asyncio.timeout(left_s):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                cause = f"the results come more slowly than {MIN_BYTES_PER_S:,} bytes per second"
                raise TransientError(FailureKind.TIMEOUT, cause) from None
            if chunk is None:
                return
            left_s = min(slack_s, left_s + len(chunk) / MIN_BYTES_PER_S - (time.monotonic() - asked))
            yield chunk


async def _split(chunks: Chunks) -> AsyncGenerator[bytes, None]:
    """Yield the lines; of one longer than MAX_LINE_BYTES, only its beginning, which is longer too."""
    pieces: list[bytes] = []
    size = 0
    async with aclosing(chunks):
        async for chunk in chunks:
            first, *others = chunk.split(b"\n")
            if size <= MAX_LINE_BYTES:
                pieces.append(first)
                size += len(first)
            for other in others:
                yield b"".join(pieces)
                pieces, size = [other], len(other)
    yield b"".join(pieces)
