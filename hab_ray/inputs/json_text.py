"""Reads JSON that users give: one value, one value per line, or a list of rows."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, TextIO

from hab_ray.inputs.files import (
    MAX_COLUMNS,
    MAX_ROW_BYTES,
    MAX_ROWS,
    MEBIBYTE,
    SHOWN,
    BadInput,
    Data,
    no_text,
    opened,
    too_many_columns,
    too_many_rows,
)

_SIGN = re.compile(r"[^ \t\r\n]")


def parse_json(data: bytes) -> Any:
    """Parse a JSON text in UTF-8.

    Raises:
        BadInput: it is not JSON, has more than `MAX_ROW_BYTES`, a duplicate key, too deep nesting, NaN, Infinity or a
            number with thousands of digits.
    """
    if len(data) > MAX_ROW_BYTES:
        raise BadInput(f"has {len(data):,} bytes, and at most {MAX_ROW_BYTES:,} are read", "shorten it")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"not JSON: not UTF-8 text ({error.reason})", "save it in UTF-8") from None
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"not JSON: column {error.colno}: {error.msg}", "correct it there") from None
    except (RecursionError, ValueError) as error:
        raise _unreadable(error) from None


def json_lines(data: Data) -> Iterator[tuple[int, Any]]:
    """Yield the values of JSON lines, each with its line number from 1. Empty lines are skipped.

    Raises:
        BadInput: a line is longer than `MAX_ROW_BYTES`, an object has more than `MAX_COLUMNS` keys, there are more
            than `MAX_ROWS` rows or empty lines, or as `parse_json`.
    """
    with opened(data) as lines:
        lines.seek(3 if lines.read(3) == b"\xef\xbb\xbf" else 0)
        yield from _values(lines)


def _values(lines: BinaryIO) -> Iterator[tuple[int, Any]]:
    number = rows = 0
    while line := lines.readline(MAX_ROW_BYTES + 1):
        number += 1
        if len(line) > MAX_ROW_BYTES:
            raise BadInput(f"line {number}: has more than {MAX_ROW_BYTES:,} bytes", "shorten it")
        has_text = bool(line.strip())
        rows += has_text
        if max(rows, number - rows) > MAX_ROWS:
            raise too_many_rows()
        if has_text:
            try:
                yield number, _row(parse_json(line))
            except BadInput as error:
                raise BadInput(f"line {number}: {error.cause}", error.remedy) from None


def json_list(data: Data) -> Iterator[Any]:
    """Yield the members of a JSON list, one at a time.

    Raises:
        BadInput: it is not a list, a member is longer than `MAX_ROW_BYTES`, there are more than `MAX_ROWS`, or as
            `json_lines`.
    """
    with io.TextIOWrapper(opened(data), "utf-8-sig") as file:
        yield from _members(_Window(data, file))


def _members(text: _Window) -> Iterator[Any]:
    if text.sign() != "[":
        raise BadInput("is not a JSON list", "write one list of objects, or one object per line in a .jsonl file")
    text.skip()
    rows, between = 0, text.sign()
    while between != "]":
        rows += 1
        if rows > MAX_ROWS:
            raise too_many_rows()
        try:
            yield _row(text.value())
        except BadInput as error:
            raise BadInput(f"row {rows}: {error.cause}", error.remedy) from None
        between = text.sign()
        if between not in (",", "]"):
            raise BadInput(f"not JSON: a comma is missing after row {rows}", "correct it there")
        if between == ",":
            text.skip()
    text.skip()
    if text.sign():
        raise BadInput("not JSON: there is more text after the end of the list", "remove it")


def _row(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > MAX_COLUMNS:
        raise too_many_columns()
    return value


def _unreadable(error: RecursionError | ValueError) -> BadInput:
    """Return the error for JSON that is well-formed but refused."""
    if isinstance(error, RecursionError):
        return BadInput("not JSON: lists and objects are nested too deeply", "write it flat")
    return BadInput(f"not JSON: {str(error).partition(';')[0]}", "correct it there")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name[:SHOWN]!r} appears twice")
        found[name] = value
    return found


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number in JSON, where an empty value is null")


_DECODER = json.JSONDecoder(object_pairs_hook=_without_doubles, parse_constant=_refused)


class _Window:
    """A JSON text that is read and decoded in parts."""

    def __init__(self, data: Data, file: TextIO) -> None:
        self._data, self._file = data, file
        self._text, self._at = "", 0

    def sign(self) -> str:
        """Return the next character that is not white space; "" at the end."""
        while True:
            found = _SIGN.search(self._text, self._at)
            self._at = found.start() if found else len(self._text)
            if found or not self._read_on():
                return self._text[self._at : self._at + 1]

    def skip(self) -> None:
        self._at += 1

    def value(self) -> Any:
        self.sign()
        while True:
            broken = ""
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                broken = error.msg
            except (RecursionError, ValueError) as error:
                raise _unreadable(error) from None
            is_whole = not broken and end < len(self._text)
            if not is_whole and len(self._text) - self._at > MAX_ROW_BYTES:
                raise BadInput(f"has more than {MAX_ROW_BYTES:,} characters", "shorten it")
            if is_whole or not self._read_on():
                break
        if broken:
            raise BadInput(f"not JSON: {broken}", "correct it there")
        self._at = end
        return value

    def _read_on(self) -> bool:
        try:
            more = self._file.read(MEBIBYTE)
        except UnicodeDecodeError:
            raise no_text(self._data) from None
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)
