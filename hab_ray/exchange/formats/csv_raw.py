"""CSV files whose cells are as they are, also where a spreadsheet would take one for a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from hab_ray.exchange.card import Contents
from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tidy
from hab_ray.inputs.csv_safe import without_lists
from hab_ray.results import Run


def write(run: Run, sharing: Sharing, folder: Path) -> Contents:
    """Write each of the run's tables."""
    return Contents("verdicts.csv", write_tidy(run, sharing, folder, ".csv", csv_file))


@contextmanager
def csv_file(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Writes tables of one schema into a CSV file."""
    flat = without_lists(schema.empty_table()).schema
    with pa_csv.CSVWriter(path, flat, write_options=pa_csv.WriteOptions(quoting_style="all_valid")) as writer:
        yield lambda table: writer.write(without_lists(table))
