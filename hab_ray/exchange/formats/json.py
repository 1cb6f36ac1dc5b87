"""JSON Lines files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tidy
from hab_ray.results import Run


def write(run: Run, sharing: Sharing, folder: Path) -> dict[str, int]:
    """Write the run's tables."""
    return write_tidy(run, sharing, folder, ".jsonl", _json_lines)


def _json_lines(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for table in tables:
            file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in table.to_pylist())
