"""CSV files in which no cell is a formula to a spreadsheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from hab_ray.exchange.card import Contents
from hab_ray.exchange.formats.csv_raw import csv_file
from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tidy
from hab_ray.inputs.csv_safe import without_formulas, without_lists
from hab_ray.results import Run


def write(run: Run, sharing: Sharing, folder: Path) -> Contents:
    """Write each of the run's tables."""
    return Contents("verdicts.csv", write_tidy(run, sharing, folder, ".csv", _safe_csv_file))


@contextmanager
def _safe_csv_file(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    with csv_file(path, schema) as add:
        yield lambda table: add(without_formulas(without_lists(table)))
