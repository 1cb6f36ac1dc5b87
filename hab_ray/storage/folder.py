"""The primitives every stored file goes through: list, exists, size, get, get_range, put, put_new, move, delete, clear.

`put` replaces atomically. `put_new` creates, and fails if the name exists: of two writers exactly one wins,
which is what the lease and the ledger stand on. Names are relative, with `/` between parts.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from hab_ray.location import Location

_ASIDE = ".aside-"


class Folder(Protocol):
    """A place that holds named blobs."""

    def list(self, prefix: str = "") -> Sequence[str]:
        """All names under a prefix folder ("" = all), sorted; a prefix nobody wrote to is empty."""

    def exists(self, name: str) -> bool:
        """Whether something is under a name."""

    def size(self, name: str) -> int:
        """How many bytes are under a name.

        Raises:
            FileNotFoundError: nothing is there.
        """

    def get(self, name: str) -> bytes:
        """The bytes under a name.

        Raises:
            FileNotFoundError: nothing is there.
        """

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """So many of the bytes under a name, fewer where it ends before.

        Raises:
            FileNotFoundError: nothing is there.
        """

    def put(self, name: str, data: bytes) -> None:
        """Write or atomically replace."""

    def put_new(self, name: str, data: bytes) -> None:
        """Write, unless the name exists.

        Raises:
            FileExistsError: it does.
        """

    def put_new_private(self, name: str, data: bytes) -> None:
        """As `put_new`, readable by this user alone (mode 0600 on disk)."""

    def delete(self, name: str) -> None:
        """Remove; a name that is not there is fine."""

    def move(self, name: str, to: str) -> None:
        """Atomically replace what is under another name of this folder by this.

        Raises:
            FileNotFoundError: nothing is there.
        """

    def clear(self, prefix: str) -> None:
        """Remove everything under a prefix folder; one that nobody wrote to is fine."""


class LocalFolder:
    """A folder on local disk. Files appear whole, after an fsync, by rename() or link()."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def list(self, prefix: str = "") -> Sequence[str]:
        """See Folder."""
        return sorted(self._walk(self.root / prefix))

    def _walk(self, start: Path) -> Iterator[str]:
        for parent, _, files in os.walk(start, onerror=_must_be_readable):
            for file in files:
                if not file.startswith(_ASIDE):
                    yield (Path(parent) / file).relative_to(self.root).as_posix()

    def exists(self, name: str) -> bool:
        """See Folder."""
        return (self.root / name).is_file()

    def size(self, name: str) -> int:
        """See Folder."""
        return (self.root / name).stat().st_size

    def get(self, name: str) -> bytes:
        """See Folder."""
        return (self.root / name).read_bytes()

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """See Folder."""
        with (self.root / name).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, start)

    def put(self, name: str, data: bytes) -> None:
        """See Folder."""
        with self._written_aside(name, data) as aside:
            aside.replace(self.root / name)

    def put_new(self, name: str, data: bytes) -> None:
        """See Folder."""
        with self._written_aside(name, data) as aside:
            os.link(aside, self.root / name)

    def put_new_private(self, name: str, data: bytes) -> None:
        """See Folder."""
        with self._written_aside(name, data, mode=0o600) as aside:
            os.link(aside, self.root / name)

    def delete(self, name: str) -> None:
        """See Folder."""
        (self.root / name).unlink(missing_ok=True)

    def move(self, name: str, to: str) -> None:
        """See Folder."""
        target = self.root / to
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).replace(target)
        _sync_folder(target.parent)

    def clear(self, prefix: str) -> None:
        """See Folder."""
        shutil.rmtree(self.root / prefix, ignore_errors=True)

    @contextmanager
    def _written_aside(self, name: str, data: bytes, mode: int = 0o666) -> Iterator[Path]:
        parent = (self.root / name).parent
        parent.mkdir(parents=True, exist_ok=True)
        aside = parent / f"{_ASIDE}{secrets.token_hex(8)}"
        try:
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with _named(self.root / name), open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield aside
        finally:
            with suppress(FileNotFoundError):
                aside.unlink()
        _sync_folder(parent)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Give an error of a write, which knows no name, the name of the file that was to appear."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _must_be_readable(error: OSError) -> None:
    """A folder that is not there is empty. One that cannot be read is not: its replies would be paid for again."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_folder(location: Location) -> Folder:
    """The folder at a location.

    Raises:
        ConfigError: it is not on this machine.
    """
    return LocalFolder(location.path)
