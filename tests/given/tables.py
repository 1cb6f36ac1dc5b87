"""Writes rows as a user would give them."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_rows(path: Path, rows: Sequence[Any]) -> Path:
    """Write rows to a file in the format that its name ends with: .parquet, .csv or .jsonl."""
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        case ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                table = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
                table.writeheader()
                table.writerows(rows)
        case ".json":
            path.write_text(f"\ufeff {json.dumps(rows, ensure_ascii=False, indent=1)}", encoding="utf-8")
        case _:
            path.write_bytes("\r\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode())
    return path
