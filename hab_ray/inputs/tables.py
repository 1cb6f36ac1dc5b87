"""Reads tables in any supported format, one row at a time."""

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
    """A table in a file. `numbered` are the column names of a CSV file without a header."""

    path: Path
    names: tuple[str, ...]
    numbered: tuple[str, ...] = ()

    def cells(self, columns: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of each row, from 1, and its values by our names: texts, numbers, or JSON lists and objects.

        `columns` maps our names to those of the file.
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
    """Return the text of a cell; None if it is empty. Raise BadInput if the cell is not a text."""
    if value is not None and not isinstance(value, str):
        raise BadInput(f"row {number}: the column {theirs[:SHOWN]!r} holds no text", "write texts there")
    return value


def open_frame(path: Path, given: Mapping[str, str]) -> Frame:
    """Open the table in a .parquet, .csv, .jsonl or .json file (a list of objects).

    If `given` names the columns of a CSV file only by numbers, the file has no header. Raise BadInput if the file
    cannot be read, or has no columns.
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
