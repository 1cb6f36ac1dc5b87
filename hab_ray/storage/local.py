"""A folder on local disk."""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from hab_ray.storage.modes import make_folder, open_new

_ASIDE = ".aside-"
_NEW = os.O_WRONLY | os.O_EXCL
MAX_BYTES = 1 << 36


class LocalFolder:
    """A folder on local disk. Each file is written aside, synced, then published whole by rename() or link()."""

    is_remote = False

    def __init__(self, root: Path) -> None:
        self.root = root

    def claim(self) -> None:
        """Do nothing: lookups on a local disk are cheap, so none are cached."""

    def release(self) -> None:
        """Do nothing, like `claim`."""

    def list(self, prefix: str = "") -> Sequence[str]:
        return sorted(self._walk(self.root / prefix))

    def _walk(self, start: Path) -> Iterator[str]:
        for parent, _, files in os.walk(start, onerror=_refuse_unreadable):
            for file in files:
                if not file.startswith(_ASIDE):
                    yield (Path(parent) / file).relative_to(self.root).as_posix()

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def size(self, name: str) -> int:
        return (self.root / name).stat().st_size

    def get(self, name: str) -> bytes:
        with _open(self.root / name) as file:
            return file.read()

    def get_range(self, name: str, start: int, length: int) -> bytes:
        with _open(self.root / name) as file:
            return os.pread(file.fileno(), length, start)

    def put(self, name: str, data: bytes) -> None:
        with self._written_aside(name, data) as aside:
            aside.replace(self.root / name)

    def put_new(self, name: str, data: bytes) -> None:
        with self._written_aside(name, data) as aside:
            os.link(aside, self.root / name)

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def move(self, name: str, to: str) -> None:
        target = self.root / to
        make_folder(target.parent, self.root)
        (self.root / name).replace(target)
        _sync_folder(target.parent)

    def clear(self, prefix: str) -> None:
        shutil.rmtree(self.root / prefix, ignore_errors=True)

    @contextmanager
    def _written_aside(self, name: str, data: bytes) -> Iterator[Path]:
        parent = (self.root / name).parent
        make_folder(parent, self.root)
        aside = parent / f"{_ASIDE}{secrets.token_hex(8)}"
        try:
            with _errors_naming(self.root / name), open(open_new(aside, self.root, _NEW), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield aside
        finally:
            with suppress(FileNotFoundError):
                aside.unlink()
        _sync_folder(parent)


def _open(path: Path) -> FileIO:
    """Open a file for reading.

    Raises:
        OSError: the file is missing, is a pipe, socket or device, whose read may never end (ENXIO), or has more than
            `MAX_BYTES`, so that this project cannot have written it (EOVERFLOW).
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode):
        problem = errno.EOVERFLOW if found.st_size > MAX_BYTES else 0
    else:
        problem = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.ENXIO
    if problem:
        os.close(handle)
        raise OSError(problem, os.strerror(problem), str(path))
    return FileIO(handle)


@contextmanager
def _errors_naming(path: Path) -> Iterator[None]:
    """Name the target file in errors of writes, which name no file or the one written aside."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _refuse_unreadable(error: OSError) -> None:
    """Treat a missing folder as empty, but not an unreadable one: its replies would be paid for again."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
