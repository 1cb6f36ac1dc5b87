"""A run's rows as files, one per table: CSV, JSON Lines, or Parquet as in the benchmark's published data set."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hab_ray.exchange.published import Evaluations
from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tables, write_tidy
from hab_ray.inputs.csv_safe import without_formulas, without_lists
from hab_ray.results import Run

_FIRST = "evaluations.parquet"


def csv(run: Run, sharing: Sharing, folder: Path) -> dict[str, int]:
    """Write CSV files in which a ' before formulas keeps spreadsheets from running them."""
    return write_tidy(run, sharing, folder, ".csv", _csv_safe)


def csv_raw(run: Run, sharing: Sharing, folder: Path) -> dict[str, int]:
    """Write CSV files with unchanged cells, even those that a spreadsheet would take for formulas."""
    return write_tidy(run, sharing, folder, ".csv", _csv)


def json_lines(run: Run, sharing: Sharing, folder: Path) -> dict[str, int]:
    """Write JSON Lines files."""
    return write_tidy(run, sharing, folder, ".jsonl", _json_lines)


def hf(run: Run, sharing: Sharing, folder: Path) -> dict[str, int]:
    """Write a Hugging Face data set: the evaluations in the published columns first, then the run's tables."""
    rows = write_tables(folder / _FIRST, Evaluations(run, sharing).tables(), _parquet)
    return {_FIRST: rows, **write_tidy(run, sharing, folder, ".parquet", _parquet)}


def _csv(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    flat = without_lists(schema.empty_table()).schema
    with pa_csv.CSVWriter(path, flat, write_options=pa_csv.WriteOptions(quoting_style="all_valid")) as writer:
        for table in tables:
            writer.write(without_lists(table))


def _csv_safe(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    _csv(path, schema, (without_formulas(without_lists(table)) for table in tables))


def _json_lines(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for table in tables:
            file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in table.to_pylist())


def _parquet(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in tables:
            if table.num_rows:  # a row group without rows is refused by some readers, such as earlier versions of hab
                writer.write_table(table)
