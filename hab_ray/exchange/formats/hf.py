"""A Hugging Face data set like the benchmark's published one: Parquet files, scored responses first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.exchange.published import Evaluations
from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tables, write_tidy
from hab_ray.results import Run

_FIRST = "evaluations.parquet"


def write(run: Run, sharing: Sharing, folder: Path) -> dict[str, int]:
    """Write the evaluations in the published columns, then the run's tables."""
    rows = write_tables(folder / _FIRST, Evaluations(run, sharing).tables(), _parquet)
    return {_FIRST: rows, **write_tidy(run, sharing, folder, ".parquet", _parquet)}


def _parquet(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in tables:
            if table.num_rows:  # a row group without rows is refused by some readers, such as earlier versions of hab
                writer.write_table(table)
