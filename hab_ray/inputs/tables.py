"""Tables from elsewhere, in whatever format, read a row at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hab_ray.inputs.csv_text import csv_names, csv_numbers, csv_rows
from hab_ray.inputs.files import SHOWN, BadInput, distinct_columns
from hab_ray.inputs.json_text import json_lines, json_list
from hab_ray.inputs.parquet import number_columns, parquet_columns, parquet_names


@dataclass(frozen=True)
class Frame:
    """A table in a file. `numbered` are the names of a CSV file's columns where its first line has none."""

    path: Path
    names: tuple[str, ...]
    numbered: tuple[str, ...] = ()

    def cells(self, columns: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number of each row from 1, and its values under our names: texts, numbers, and JSON's lists and objects.

        `columns` says theirs by ours.
        """
        for number, row in enumerate(_rows(self.path, [*columns.values()], self.numbered), 1):
            known = row if isinstance(row, dict) else {}
            yield number, {ours: known.get(theirs) for ours, theirs in columns.items()}


def _rows(path: Path, wanted: Sequence[str], numbered: Sequence[str] = ()) -> Iterator[Any]:
    match path.suffix.lower():
        case ".parquet":
            numbers = number_columns(path).intersection(wanted)
            yield from parquet_columns(path, [name for name in wanted if name not in numbers], sorted(numbers))
        case ".csv":
            yield from (row for _, row in csv_rows(path, numbered))
        case ".json":
            yield from json_list(path)
        case _:
            yield from (row for _, row in json_lines(path))


def text_in(value: object, number: int, theirs: str) -> str | None:
    """The text of a cell; None where it is empty.

    Raises:
        BadInput: it holds something else.
    """
    if value is not None and not isinstance(value, str):
        raise BadInput(f"row {number}: the column {theirs[:SHOWN]!r} holds no text", "write texts there")
    return value


def open_frame(path: Path, given: Mapping[str, str]) -> Frame:
    """The table in a .parquet, .csv, .jsonl or .json file (a list of objects).

    Where `given` names the columns of a CSV file by numbers alone, its first line is a row like the others.

    Raises:
        BadInput: it cannot be read, or has no columns.
    """
    match path.suffix.lower():
        case ".parquet":
            return Frame(path, parquet_names(path))
        case ".csv":
            if given and all(theirs.isdecimal() for theirs in given.values()):
                return Frame(path, numbers := csv_numbers(path), numbers)
            return Frame(path, csv_names(path))
        case ".json" | ".jsonl":
            names = distinct_columns(name for row in _rows(path, ()) if isinstance(row, dict) for name in row)
        case kind:
            raise BadInput(f"has the ending {kind or 'of no format'!r}", "name a .parquet, .csv, .jsonl or .json file")
    if not names:
        raise BadInput("holds no rows with named columns", "write one object with keys for each row")
    return Frame(path, names)
