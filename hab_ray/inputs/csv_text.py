"""Tables of comma-separated values with a line of names, as spreadsheets and other programs write them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from hab_ray.inputs.files import BadInput, decoded
from hab_ray.inputs.parquet import MOST_ROWS

_SHOWN = 40


def csv_names(data: bytes) -> tuple[str, ...]:
    """The names in the first line of a table.

    Raises:
        BadInput: it is no text in UTF-8, has no first line, or a name is missing or stands twice in it.
    """
    first = next(_lines(data), None)
    names = tuple(name.strip() for name in first[1]) if first else ()
    if not any(names):
        raise BadInput("is empty", "write a first line with the names of the columns")
    for number, name in enumerate(names):
        if not name:
            raise BadInput(f"column {number + 1} has no name in the first line", "give it one")
        if name in names[:number]:
            raise BadInput(f"the column {name[:_SHOWN]!r} stands twice", "keep one of them")
    return names


def csv_rows(data: bytes) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table by the names in its first line, each with the number of the line it ends on; a cell stays as
    it is, with its white space. Empty lines are left out.

    Raises:
        BadInput: as `csv_names`; a row has another number of cells, a quotation mark is out of place, a cell is longer
            than the csv module reads (131,072 characters), or there are more than `MOST_ROWS` rows.
    """
    names = csv_names(data)
    for count, (line, cells) in enumerate(row for row in _lines(data) if row[1]):
        if count > MOST_ROWS:
            raise BadInput(f"has more than {MOST_ROWS:,} rows", "split it")
        if len(cells) != len(names):
            cause = f"line {line}: has {len(cells)} cells, and the first line names {len(names)} columns"
            raise BadInput(cause, "put texts with commas or line breaks in quotation marks")
        if count:
            yield line, dict(zip(names, cells, strict=True))


def _lines(data: bytes) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(decoded(data), newline=""), strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise BadInput(f"line {reader.line_num}: not a table that can be read: {error}", "correct it there") from None
