"""New folders, created atomically."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hab_ray.errors import ConfigError


def refuse_full(folder: Path) -> None:
    """Raise ConfigError if a folder for `--out` is not empty, or is a file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out: {folder} is not an empty folder; name a new one")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into, and move it to `folder` on success.

    It is written in a temporary folder beside it. Only a killed process leaves that behind: its name says what it is.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.unfinished-") as temporary:
        unfinished = Path(temporary) / folder.name
        unfinished.mkdir()
        yield unfinished
        os.replace(unfinished, folder)
