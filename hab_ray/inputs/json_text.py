"""JSON as users and programs of theirs write it: one value, or one a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hab_ray.inputs.files import BadInput

LONGEST_LINE_BYTES = 16 << 20


def parse_json(data: bytes) -> Any:
    """The value of a JSON text in UTF-8.

    Raises:
        BadInput: it is none, names a key twice, is too deep to be read, or holds NaN, Infinity or a number of
            thousands of digits.
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_without_doubles, parse_constant=_refused)
    except UnicodeDecodeError as error:
        raise BadInput(f"not JSON: no text in UTF-8 ({error.reason})", "save it in UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"not JSON: column {error.colno}: {error.msg}", "correct it there") from None
    except RecursionError:
        raise BadInput("not JSON: lists and objects stand within each other too deeply", "write it flat") from None
    except ValueError as error:
        raise BadInput(f"not JSON: {str(error).partition(';')[0]}", "correct it there") from None


def json_lines(data: bytes) -> Iterator[tuple[int, Any]]:
    """The values of JSON lines, each with the number of its line from 1; empty lines are left out.

    Raises:
        BadInput: a line is longer than `LONGEST_LINE_BYTES`, or as `parse_json`.
    """
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if len(line) > LONGEST_LINE_BYTES:
            cause = f"line {number}: has {len(line):,} bytes, and at most {LONGEST_LINE_BYTES:,} are read"
            raise BadInput(cause, "shorten it")
        if line.strip():
            try:
                yield number, parse_json(line)
            except BadInput as error:
                raise BadInput(f"line {number}: {error.cause}", error.remedy) from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        doubled = next(name for n, (name, _) in enumerate(pairs) if name in dict(pairs[:n]))
        raise ValueError(f"the key {doubled[:40]!r} stands twice")
    return found


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number in JSON")
