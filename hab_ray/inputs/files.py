"""Reads the bytes and the text of files that users name."""

from __future__ import annotations

import codecs
import io
import mmap
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hab_ray.errors import ConfigError
from hab_ray.visible import one_line

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MEBIBYTE = 1 << 20
MAX_TEXT_BYTES = 4 * MEBIBYTE
MAX_STREAMED_BYTES = 16_384 * MEBIBYTE
MAX_ROWS = 1_000_000
MAX_ROW_BYTES = 4 * MEBIBYTE
MAX_COLUMNS = 2_000
MAX_COLUMN = 1_000
SHOWN = 40
_SHOWN_CAUSES = 5
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not known; correct its name, or remove it",
    "string_type": "must be text",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have at most {max_length} characters",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    "int_parsing_size": "is too large; give a smaller whole number",
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list, such as [a, b]"),
    "too_short": "must have {min_length} or more entries, and has {actual_length}",
    "too_long": "must have at most {max_length} entries",
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "dataclass_type"),
        "must be a section, such as {{key: value}}",
    ),
    **dict.fromkeys(("literal_error", "enum"), "must be {expected}"),
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"),
        "must be a date, such as 2027-03-31",
    ),
}


class BadInput(ValueError):
    """A file or text cannot be used. The message says where and why, and what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}; {remedy}")
        self.cause, self.remedy = cause, remedy


@contextmanager
def refusing(where: object) -> Iterator[None]:
    """Turn BadInput into a ConfigError that begins with `where`: the file, after the key or option that names it."""
    try:
        yield
    except BadInput as error:
        raise ConfigError(one_line(f"{where}: {error}")) from None


def causes_of(error: ValidationError) -> str:
    """Return the first causes of a validation error, each with its location."""
    found = error.errors(include_url=False)[:_SHOWN_CAUSES]
    places = [(".".join(map(str, detail["loc"])), plain_words(detail)) for detail in found]
    return "; ".join(": ".join(filter(None, place)) for place in places)


def plain_words(error: ErrorDetails) -> str:
    """Return what is wrong with the value, without its place; an error of a validator of ours keeps its words."""
    if words := _WORDS.get(error["type"]):
        return words.format_map(error.get("ctx", {}))
    return error["msg"].removeprefix("Value error, ")


Data = bytes | Path
"""A table's bytes, or its file, which is read in parts."""


def opened(data: Data) -> BinaryIO:
    """Open a table for reading."""
    return io.BytesIO(data) if isinstance(data, bytes) else regular_file(data, MAX_STREAMED_BYTES)


def mapped(data: Data) -> bytes | mmap.mmap:
    """Return a table as a sequence of bytes; a file is mapped into memory."""
    if isinstance(data, bytes):
        return data
    with opened(data) as file:
        is_empty = os.fstat(file.fileno()).st_size == 0
        return b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def bytes_of(path: Path, most: int) -> bytes:
    """Read the bytes of a regular file. Raises as `regular_file`."""
    with regular_file(path, most) as file:
        return file.read(most)


def regular_file(path: Path, most: int) -> BinaryIO:
    """Open a regular file for reading.

    Pipes, sockets and devices are refused: opening them may block forever, and reading them may never end. Raise
    BadInput if the file cannot be read, is not a regular file, or has more than `most` bytes.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise BadInput("there is no such file", "check the path") from None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", "name a file that this user may read") from None
    except ValueError:
        raise BadInput(
            "is not a path: it holds a NUL or an incomplete character", "write the path without it"
        ) from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise BadInput(f"is {_kind(found.st_mode)}, where a file is needed", "name a file on disk")
    if found.st_size > most:
        os.close(handle)
        raise BadInput(
            f"has {found.st_size:,} bytes, and at most {most:,} are read", "name the right file, or split it"
        )
    return open(handle, "rb")


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def text_of(file: Traversable) -> str:
    """Read a UTF-8 file, with or without a byte order mark.

    Raises:
        BadInput: the file cannot be read, is not UTF-8, or has more than `MAX_TEXT_BYTES`.
    """
    data = bytes_of(file, MAX_TEXT_BYTES) if isinstance(file, Path) else file.read_bytes()
    return decoded(data)


def decoded(data: bytes) -> str:
    """Decode bytes as UTF-8; raise BadInput if they are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise no_text(data) from None


def no_text(data: Data) -> BadInput:
    """Return the error for bytes that are not UTF-8, with the first line that is not."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, reason = 1, "unexpected end of data"
    with opened(data) as file:
        for chunk in iter(partial(file.read, MEBIBYTE), b""):
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                line += chunk.count(b"\n", 0, max(0, error.start - pending))
                reason = error.reason
                break
            line += chunk.count(b"\n")
    return BadInput(f"cannot be read: line {line} is not UTF-8 text ({reason})", "save it in UTF-8")


def too_many_rows() -> BadInput:
    """Return the error for a table with too many rows."""
    return BadInput(f"has more than {MAX_ROWS:,} rows or as many empty lines", "split it, or remove the empty lines")


def distinct_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct names of a table's columns.

    Raises:
        BadInput: there are more than `MAX_COLUMNS`, or one is longer than `MAX_COLUMN`.
    """
    found: dict[str, None] = {}
    for name in names:
        if len(name) > MAX_COLUMN:
            cause = f"the name of a column has {len(name):,} characters, and at most {MAX_COLUMN:,} are read"
            raise BadInput(cause, "check that the file is a table with a name for each column")
        found[name] = None
        if len(found) > MAX_COLUMNS:
            raise too_many_columns()
    return tuple(found)


def too_many_columns() -> BadInput:
    """Return the error for a table with too many columns."""
    return BadInput(f"has more than {MAX_COLUMNS:,} columns", "leave out those that are not needed")
