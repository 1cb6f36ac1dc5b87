"""New folders, which are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hab_ray.errors import ConfigError


def refuse_full(folder: Path) -> None:
    """Raise ConfigError where a folder for `--out` holds something, or is a file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out: {folder} holds something already; name a folder that is not there yet")


@contextmanager
def new_folder(folder: Path, unfinished: str) -> Iterator[Path]:
    """A folder to write into, which takes its place at the end; until then it is in one whose name begins so."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=unfinished) as beside:
        inside = Path(beside) / folder.name
        inside.mkdir()
        yield inside
        os.replace(inside, folder)
