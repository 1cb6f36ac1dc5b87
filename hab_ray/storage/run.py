"""The run folder: views of the store as Parquet, the resolved sweep, progress and the report."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.errors import ConfigError
from hab_ray.rows import R, from_table, to_table
from hab_ray.storage.folder import Folder, LocalFolder
from hab_ray.storage.records import read_table, to_parquet

SWEEP = "sweep.yaml"
PROGRESS = "log/progress.json"
SCORES = "scores.parquet"
REPORT = "report/index.html"


class RunFolder:
    """One run's files. A view is replaced whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.folder: Folder = LocalFolder(self.path)

    def exists(self) -> bool:
        """Whether a run was ever started here."""
        return (self.path / SWEEP).is_file()

    def has(self, name: str) -> bool:
        """Whether a view is there."""
        return (self.path / name).is_file()

    def count(self, name: str) -> int | None:
        """How many rows a view has; None where there is none that can be read, so that it is derived again."""
        try:
            return int(pq.read_metadata(self.path / name).num_rows)
        except (pa.ArrowException, OSError):
            return None

    def read(self, row_type: type[R], name: str) -> list[R]:
        """The rows of a view, none where it is not there."""
        if not self.has(name):
            return []
        return from_table(row_type, read_table(name, self.folder.get(name)))

    def write(self, row_type: type[R], name: str, rows: list[R]) -> None:
        """Replace a view."""
        self.folder.put(name, to_parquet(to_table(row_type, rows)))

    def require(self) -> None:
        """Check that this is a run's folder.

        Raises:
            ConfigError: it is not.
        """
        if not self.exists():
            raise ConfigError(f"{self.path}: there is no run here (no {SWEEP}); start one with `hab run SWEEP.yaml`")
