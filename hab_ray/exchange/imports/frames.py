"""Tables from elsewhere, in whatever format, and which of their columns hold what we need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hab_ray.exchange.imports.naming import snake
from hab_ray.inputs.csv_text import csv_names, csv_rows
from hab_ray.inputs.files import MEBIBYTE, BadInput, bytes_of, distinct_columns
from hab_ray.inputs.json_text import json_lines, json_list
from hab_ray.inputs.parquet import number_columns, parquet_columns, parquet_names

MOST_BYTES = 256 * MEBIBYTE


@dataclass(frozen=True)
class Frame:
    """A table that is held as bytes; `kind` is the ending of its file."""

    data: bytes
    kind: str
    names: tuple[str, ...]

    def cells(self, columns: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number of each row from 1, and its values under our names: texts, numbers, and JSON's lists and objects.

        `columns` says theirs by ours.

        Raises:
            BadInput: the table cannot be read.
        """
        wanted = list(columns.values())
        for number, row in enumerate(self._raw(wanted), 1):
            known = row if isinstance(row, dict) else {}
            yield number, {ours: known.get(theirs) for ours, theirs in columns.items()}

    def _raw(self, wanted: Sequence[str]) -> Iterator[Any]:
        match self.kind:
            case ".parquet":
                numbers = number_columns(self.data).intersection(wanted)
                texts = [name for name in wanted if name not in numbers]
                yield from parquet_columns(self.data, texts, sorted(numbers))
            case ".csv":
                yield from (row for _, row in csv_rows(self.data))
            case ".json":
                yield from json_list(self.data)
            case _:
                yield from (row for _, row in json_lines(self.data))


def text_in(value: object, number: int, theirs: str) -> str | None:
    """The text of a cell; None where it is empty.

    Raises:
        BadInput: it holds something else.
    """
    if value is not None and not isinstance(value, str):
        raise BadInput(f"row {number}: the column {theirs[:40]!r} holds no text", "write texts there")
    return value


def open_frame(path: Path) -> Frame:
    """The table in a .parquet, .csv, .jsonl or .json file (a list of objects).

    Raises:
        BadInput: it cannot be read, or has no columns.
    """
    kind, data = path.suffix.lower(), bytes_of(path, MOST_BYTES)
    match kind:
        case ".parquet":
            return Frame(data, kind, parquet_names(data))
        case ".csv":
            return Frame(data, kind, csv_names(data))
        case ".json":
            rows: Iterable[Any] = json_list(data)
        case ".jsonl":
            rows = (row for _, row in json_lines(data))
        case _:
            raise BadInput(f"has the ending {kind or 'of no format'!r}", "name a .parquet, .csv, .jsonl or .json file")
    names = distinct_columns(name for row in rows if isinstance(row, dict) for name in row)
    if not names:
        raise BadInput("holds no rows with named columns", "write one object with keys for each row")
    return Frame(data, kind, names)


def mapping(names: Sequence[str], known: Mapping[str, Sequence[str]], given: Mapping[str, str]) -> dict[str, str]:
    """For each of our columns theirs: the one that is given, else the one whose name is known; left out if none is.

    Raises:
        BadInput: one that is given is not ours or is not there, or several could be meant.
    """
    found: dict[str, str] = {}
    for ours, theirs in given.items():
        if ours not in known or theirs not in names:
            there = ", ".join(name[:40] for name in names)
            raise BadInput(
                f"--column {ours}={theirs}: there is no such column",
                f"ours are {', '.join(known)}; the file has {there}",
            )
        found[ours] = theirs
    for ours, words in known.items():
        fits = [name for word in words for name in names if snake(name) == word]
        if ours not in found and fits:
            if len(fits) > 1 and snake(fits[0]) != ours:
                raise BadInput(
                    f"the columns {', '.join(fits)} may each be {ours}", f"say which with --column {ours}=NAME"
                )
            found[ours] = fits[0]
    return found
