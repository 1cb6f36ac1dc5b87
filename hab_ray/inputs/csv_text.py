"""Reads CSV tables with a header line, with commas between cells or, as some spreadsheets save them, semicolons."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TextIO

from hab_ray.inputs.files import (
    MAX_ROW_BYTES,
    MAX_ROWS,
    SHOWN,
    BadInput,
    Data,
    distinct_columns,
    no_text,
    opened,
    too_many_rows,
)

NO_ISSUES = "none"  # how a list of no issues is written
# The beginning of a formula in a spreadsheet, with or without the protecting '.
FORMULA = "'*[=+\\-@\uff1d\uff0b\uff0d\uff20\t\r\n]"
_FORMULA = re.compile(FORMULA)
csv.field_size_limit(MAX_ROW_BYTES)  # the default of 131,072 is less than the longest answers of models


def csv_names(data: Data) -> tuple[str, ...]:
    """Read the column names in the first line of a table.

    Raises:
        BadInput: the table is not UTF-8 or empty, a name is missing or appears twice; as `distinct_columns`.
    """
    first = next(_lines(data), None)
    names = tuple(name.strip() for name in first[1]) if first else ()
    if not any(names):
        raise BadInput("is empty", "write a first line with the names of the columns")
    if len(names) == 1 and "\t" in names[0]:
        cause = f"its first line {names[0][:SHOWN]!r} has tabs between the names of columns"
        raise BadInput(cause, "save the table with commas between cells; a spreadsheet asks for that on export")
    distinct = distinct_columns(names)
    if "" in distinct:
        raise BadInput(f"column {names.index('') + 1} has no name in the first line", "give it one")
    if len(distinct) < len(names):
        doubled = next(name for name in distinct if names.count(name) > 1)
        raise BadInput(f"the column {doubled[:SHOWN]!r} appears twice", "keep one of them")
    return names


def csv_numbers(data: Data) -> tuple[str, ...]:
    """Number the columns of a table without a header: `1`, `2` and so on."""
    return tuple(str(place) for place, _ in enumerate(next(_lines(data, has_header=False), (0, []))[1], 1))


def csv_rows(data: Data, names: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table, by `names` or else by its header, each with the number of its last line.

    Cells keep their white space, but lose the ' that protects a formula. Empty lines are skipped.

    Raises:
        BadInput: as `csv_names`; a row has another number of cells or more than `MAX_ROW_BYTES` characters, a
            quotation mark is out of place, or there are more than `MAX_ROWS` rows or empty lines.
    """
    rows = _lines(data, has_header=not names)
    if not names:
        names = csv_names(data)
        next(rows)
    count = empty = 0
    for line, cells in rows:
        has_text = any(cells)
        count, empty = count + has_text, empty + (not has_text)
        if max(count, empty) > MAX_ROWS:
            raise too_many_rows()
        if not has_text:
            continue
        if len(cells) != len(names):
            cause = f"line {line}: has {len(cells)} cells, and the first line names {len(names)} columns"
            raise BadInput(
                cause, "separate cells as in the first line; put texts with that sign or line breaks in quotation marks"
            )
        yield line, dict(zip(names, map(_unguarded, cells), strict=True))


def _unguarded(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _lines(data: Data, has_header: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row, split at semicolons if a header has some and no comma."""
    with io.TextIOWrapper(opened(data), "utf-8-sig", newline="") as text:
        yield from _split(data, _Lines(text), has_header)


def _split(data: Data, lines: _Lines, has_header: bool) -> Iterator[tuple[int, list[str]]]:
    try:
        first = next(lines, "")
        separator = ";" if has_header and ";" in first and "," not in first else ","
        reader = csv.reader(chain([first], lines), delimiter=separator, strict=True)
        for cells in reader:
            lines.end_row()
            yield reader.line_num, cells
    except csv.Error as error:
        raise BadInput(f"line {reader.line_num}: not a table that can be read: {error}", "correct it there") from None
    except UnicodeDecodeError:
        raise no_text(data) from None


class _Lines:
    """The lines of a text. Limits the length of a row, which the csv module would read without bound."""

    def __init__(self, text: TextIO) -> None:
        self._text = text
        self._left, self._number = MAX_ROW_BYTES, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(self._left + 1)
        self._number += 1
        self._left -= len(line)
        if self._left < 0:
            cause = f"line {self._number}: its row has more than {MAX_ROW_BYTES:,} characters"
            raise BadInput(cause, "look for a quotation mark that is not closed, or shorten it")
        if not line:
            raise StopIteration
        return line

    def end_row(self) -> None:
        self._left = MAX_ROW_BYTES
