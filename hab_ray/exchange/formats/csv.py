"""CSV files in which a ' before formulas keeps spreadsheets from running them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from hab_ray.exchange.formats.csv_raw import write_csv
from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tidy
from hab_ray.inputs.csv_safe import without_formulas, without_lists
from hab_ray.results import Run


def write(run: Run, sharing: Sharing, folder: Path) -> dict[str, int]:
    """Write the run's tables."""
    return write_tidy(run, sharing, folder, ".csv", _write_safe)


def _write_safe(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    write_csv(path, schema, (without_formulas(without_lists(table)) for table in tables))
