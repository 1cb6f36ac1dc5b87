"""Files of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hab_ray.exchange.card import Contents
from hab_ray.exchange.sharing import Sharing
from hab_ray.exchange.tidy import write_tidy
from hab_ray.results import Run


def write(run: Run, sharing: Sharing, folder: Path) -> Contents:
    """Write each of the run's tables."""
    return Contents("verdicts.jsonl", write_tidy(run, sharing, folder, ".jsonl", JsonLinesFile))


@dataclass
class JsonLinesFile:
    """Writes tables as a line of JSON for each row."""

    path: Path
    schema: pa.Schema

    def __enter__(self) -> Callable[[pa.Table], None]:
        self._file = self.path.open("w", encoding="utf-8")
        return self._add

    def _add(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            self._file.write(f"{json.dumps(row, ensure_ascii=False)}\n")

    def __exit__(self, *raised: object) -> None:
        self._file.close()
