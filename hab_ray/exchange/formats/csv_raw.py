"""CSV files whose cells are as they are, also where a spreadsheet would take one for a formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from hab_ray.exchange.card import Contents
from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tidy
from hab_ray.results import Run

LIST_SEPARATOR = " "


def write(run: Run, sharing: Sharing, folder: Path) -> Contents:
    """Write each of the run's tables."""
    return Contents("verdicts.csv", write_tidy(run, sharing, folder, ".csv", CsvFile))


@dataclass
class CsvFile:
    """Writes tables of one schema into a CSV file; of a list its members, with a space between them."""

    path: Path
    schema: pa.Schema

    def __enter__(self) -> Callable[[pa.Table], None]:
        flat = pa.schema([pa.field(f.name, pa.string() if pa.types.is_list(f.type) else f.type) for f in self.schema])
        options = pa_csv.WriteOptions(quoting_style="all_valid")
        self._writer = pa_csv.CSVWriter(self.path, flat, write_options=options)
        return lambda table: self._writer.write(self._cells(_without_lists(table, flat)))

    def __exit__(self, *raised: object) -> None:
        self._writer.close()

    def _cells(self, table: pa.Table) -> pa.Table:
        return table


def _without_lists(table: pa.Table, flat: pa.Schema) -> pa.Table:
    columns = []
    for column in table.columns:
        if pa.types.is_list(column.type):
            joined = [None if each is None else LIST_SEPARATOR.join(each) for each in column.to_pylist()]
            columns.append(pa.chunked_array([pa.array(joined, pa.string())]))
        else:
            columns.append(column)
    return pa.table(columns, schema=flat)
