"""CSV files with unchanged cells, even those that a spreadsheet would take for formulas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tidy
from hab_ray.inputs.csv_safe import without_lists
from hab_ray.results import Run


def write(run: Run, sharing: Sharing, folder: Path) -> dict[str, int]:
    """Write the run's tables."""
    return write_tidy(run, sharing, folder, ".csv", write_csv)


def write_csv(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    """Write tables of one schema into a CSV file."""
    flat = without_lists(schema.empty_table()).schema
    with pa_csv.CSVWriter(path, flat, write_options=pa_csv.WriteOptions(quoting_style="all_valid")) as writer:
        for table in tables:
            writer.write(without_lists(table))
