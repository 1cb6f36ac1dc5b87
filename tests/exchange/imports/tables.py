"""Writers of one table in each format that an import reads."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import constants

from hab_ray.exchange.imports.hub import EVALUATIONS
from hab_ray.exchange.imports.source import TableSource

Rows = Sequence[Mapping[str, Any]]
Write = Callable[[Path, Rows], None]


GUID = "01234567-89ab-cdef-0123-456789abcdef"
REVISION = "0123456789abcdef0123456789abcdef01234567"


def keep_published(hub: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put rows and their card where the hub's client keeps what it has fetched, so that no network is needed."""
    kept = hub / f"datasets--{EVALUATIONS.repo.replace('/', '--')}/snapshots/{REVISION}"
    kept.mkdir(parents=True)
    parquet(kept / str(EVALUATIONS.file), rows)
    (kept / "README.md").write_text(f"---\nlicense: mit\n---\n# Rows\nThe canary is {GUID}.\n")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub))


def parquet(path: Path, rows: Rows) -> None:
    pq.write_table(pa.Table.from_pylist([*rows]), path, row_group_size=50)


def json_list(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps([*rows]))


def json_lines(path: Path, rows: Rows) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(json.dumps, rows)).encode())


def given_table(folder: Path, rows: Rows, columns: Mapping[str, str] | None = None, **how: Any) -> TableSource:
    """Rows as a file of lines in a folder, as an import is told of it."""
    json_lines(folder / "r.jsonl", rows)
    return TableSource(str(folder / "r.jsonl"), dict(columns or {}), **how)


def comma_separated(path: Path, rows: Rows) -> None:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
