"""New folders, created atomically, and empty ones, filled at the end."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hab_ray.errors import ConfigError
from hab_ray.visible import one_line

_MAX_PREFIX = 50


def refuse_full(folder: Path) -> None:
    """Raise ConfigError if a folder for `--out` is not empty, is a file, or has a name that no text can hold."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"--out: {one_line(str(folder))}: Python cannot read this name as UTF-8; name another, or set PYTHONUTF8=1"
        ) from None
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out: {folder} is not an empty folder; name a new one")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into, and move it to `folder` on success, or what it holds if `folder` exists.

    An existing folder may be a link or the shell's current one, and is not replaced. What is written is in a temporary
    folder beside a new folder, or in an existing one, and gone with it on any error. Only a killed process leaves that
    folder behind: its name says what it is.
    """
    exists = folder.is_dir()
    folder.parent.mkdir(parents=True, exist_ok=True)
    place, prefix = (folder, "unfinished-") if exists else (folder.parent, f"{folder.name[:_MAX_PREFIX]}.unfinished-")
    with tempfile.TemporaryDirectory(dir=place, prefix=prefix) as temporary:
        unfinished = Path(temporary) / os.path.basename(os.path.abspath(folder))
        unfinished.mkdir()
        try:
            yield unfinished
        except OSError as error:
            error.filename = error.filename or str(folder)  # errors of writes name no file
            raise
        if not exists:
            os.replace(unfinished, folder)
            return
        names = [each.name for each in unfinished.iterdir()]
        try:
            for name in names:
                os.replace(unfinished / name, folder / name)
        except BaseException:
            for name in {*names}.intersection(os.listdir(folder)):
                os.replace(folder / name, unfinished / name)
            raise
