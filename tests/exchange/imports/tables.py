"""Writers of one table in each format that an import reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Rows = Sequence[Mapping[str, Any]]
Write = Callable[[Path, Rows], None]


def parquet(path: Path, rows: Rows) -> None:
    pq.write_table(pa.Table.from_pylist([*rows]), path, row_group_size=50)


def json_list(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps([*rows]))


def json_lines(path: Path, rows: Rows) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(json.dumps, rows)).encode())


def comma_separated(path: Path, rows: Rows) -> None:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
