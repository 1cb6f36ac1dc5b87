"""CSV files in which no cell is a formula to a spreadsheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.exchange.card import Contents
from hab_ray.exchange.formats.csv_raw import csv_file, without_lists
from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tidy
from hab_ray.inputs.csv_text import FORMULA
from hab_ray.results import Run

_FORMULA = rf"\A({FORMULA})"


def write(run: Run, sharing: Sharing, folder: Path) -> Contents:
    """Write each of the run's tables."""
    return Contents("verdicts.csv", write_tidy(run, sharing, folder, ".csv", _safe_csv_file))


@contextmanager
def _safe_csv_file(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    with csv_file(path, schema) as add:
        yield lambda table: add(_without_formulas(without_lists(table)))


def _without_formulas(table: pa.Table) -> pa.Table:
    """The table with a ' before what a spreadsheet would take for a formula."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            safe = pc.replace_substring_regex(table.column(number), _FORMULA, r"'\1")
            table = table.set_column(number, field, safe)
    return table
