"""The bytes and the text of a file that a user names."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterable
from importlib.resources.abc import Traversable
from pathlib import Path

MEBIBYTE = 1 << 20
MOST_TEXT_BYTES = 4 * MEBIBYTE
MOST_ROWS = 1_000_000
MOST_ROW_BYTES = 4 * MEBIBYTE
MOST_COLUMNS = 2_000
LONGEST_COLUMN = 1_000


class BadInput(ValueError):
    """A file or text cannot be used: where in it and why, and what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}; {remedy}")
        self.cause, self.remedy = cause, remedy


def bytes_of(path: Path, most: int) -> bytes:
    """The bytes of a regular file.

    A pipe, socket or device is refused before it is read: it may never end, and opening it may wait for ever.

    Raises:
        BadInput: it cannot be read, is no regular file, or has more than `most` bytes.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise BadInput("there is no such file", "check the path") from None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", "name a file that this user may read") from None
    except ValueError:
        raise BadInput("is no path: it holds a NUL character", "write the path without it") from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise BadInput(f"is {_kind(found.st_mode)}, where a file is needed", "name a file on disk")
    with open(handle, "rb") as file:
        if found.st_size > most:
            raise BadInput(
                f"has {found.st_size:,} bytes, and at most {most:,} are read", "name the right file, or split it"
            )
        return file.read(most)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def text_of(file: Traversable) -> str:
    """The text of a file in UTF-8, with or without a byte order mark.

    Raises:
        BadInput: it cannot be read, is no text in UTF-8, or has more than `MOST_TEXT_BYTES`.
    """
    data = bytes_of(file, MOST_TEXT_BYTES) if isinstance(file, Path) else file.read_bytes()
    return decoded(data)


def decoded(data: bytes) -> str:
    """Bytes as text in UTF-8.

    Raises:
        BadInput: they are none.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise no_text(data) from None


def no_text(data: bytes) -> BadInput:
    """Why bytes that are no text in UTF-8 are none: the first line that is not."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, reason = 1, "unexpected end of data"
    for start in range(0, len(data), MEBIBYTE):
        chunk = data[start : start + MEBIBYTE]
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError as error:
            line += chunk.count(b"\n", 0, max(0, error.start - pending))
            reason = error.reason
            break
        line += chunk.count(b"\n")
    return BadInput(f"cannot be read: line {line} is no text in UTF-8 ({reason})", "save it in UTF-8")


def too_many_rows() -> BadInput:
    """Why a table is not read further."""
    return BadInput(f"has more than {MOST_ROWS:,} rows or as many empty lines", "split it, or remove the empty lines")


def distinct_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The names of a table's columns, each once.

    Raises:
        BadInput: there are more than `MOST_COLUMNS`, or one is longer than `LONGEST_COLUMN`.
    """
    found: dict[str, None] = {}
    for name in names:
        if len(name) > LONGEST_COLUMN:
            cause = f"the name of a column has {len(name):,} characters, and at most {LONGEST_COLUMN:,} are read"
            raise BadInput(cause, "check that the file is a table with a name for each column")
        found[name] = None
        if len(found) > MOST_COLUMNS:
            raise too_many_columns()
    return tuple(found)


def too_many_columns() -> BadInput:
    """Why a table is not read at all."""
    return BadInput(f"has more than {MOST_COLUMNS:,} columns", "leave out those that are not needed")
