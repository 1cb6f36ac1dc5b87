"""A cache of objects on this node's disk, so that immutable objects are fetched once.

    <cache>/s3/<hash>      16 bytes of checksum, then the object

All processes of a user share it. A file is written aside and renamed, so a killed process leaves no truncated file; the
checksum detects damage by the disk. Above the size limit, the least recently used files are removed. Any error here
costs a request and nothing else.
"""

import os
import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b, sha256
from pathlib import Path

import platformdirs

from hab_ray.errors import ConfigError
from hab_ray.location import expanded
from hab_ray.storage.modes import refuse_others

FOLDER_VARIABLE, SIZE_VARIABLE = "HAB_CACHE", "HAB_CACHE_GB"
DEFAULT_GB = 8
_CHECKSUM_BYTES = 16
_SCANS_PER_LIMIT = 20


class DiskCache:
    """A cache of about `limit` bytes at most; a limit of 0 disables it."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._lock = threading.Lock()
        self._written_since_scan = limit  # so the first write scans the folder

    def get(self, name: str) -> bytes | None:
        """Return a cached object; None if it is missing or damaged."""
        path = self._path(name)
        try:
            whole = path.read_bytes()
        except OSError:
            return None
        data = whole[_CHECKSUM_BYTES:]
        if whole[:_CHECKSUM_BYTES] != _checksum(data):
            self._remove(path)
            return None
        with suppress(OSError):
            os.utime(path)
        return data

    def get_range(self, name: str, start: int, length: int) -> bytes | None:
        """Return part of a cached object, unchecked: call `get` first. None if it is missing."""
        try:
            with self._path(name).open("rb", buffering=0) as file:
                return os.pread(file.fileno(), length, start + _CHECKSUM_BYTES)
        except OSError:
            return None

    def takes(self, size: int) -> bool:
        """Return whether an object of `size` bytes is cached: one of at most half the limit."""
        return size <= self._limit // 2

    def put(self, name: str, data: bytes) -> None:
        """Cache an object, unless it is too large or the disk cannot be written."""
        if not self.takes(len(data)):
            return
        path = self._path(name)
        aside = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with aside.open("xb") as file:
                file.write(_checksum(data))
                file.write(data)
            aside.replace(path)
        except OSError:  # a full or read-only disk
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            return
        self._make_room(len(data))

    def _path(self, name: str) -> Path:
        return self._folder / sha256(name.encode()).hexdigest()

    def _remove(self, path: Path) -> None:
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def _make_room(self, written: int) -> None:
        """Remove the least recently used objects; scan the folder once per twentieth of the limit written."""
        with self._lock:
            self._written_since_scan += written
            if self._written_since_scan < self._limit // _SCANS_PER_LIMIT:
                return
            self._written_since_scan = 0
        with suppress(OSError):
            files = [(entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in os.scandir(self._folder)]
            excess = sum(size for _, size, _ in files) - self._limit
            for _, size, path in sorted(files):
                if excess <= 0:
                    break
                self._remove(Path(path))
                excess -= size


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECKSUM_BYTES).digest()


def node_cache(environ: Mapping[str, str]) -> DiskCache:
    """Open this node's cache in HAB_CACHE or the user's cache folder, limited to HAB_CACHE_GB (10^9 bytes; 0 for none).

    Raises:
        ConfigError: HAB_CACHE_GB is not a size, or other users may write to the folder.
    """
    given = environ.get(SIZE_VARIABLE) or str(DEFAULT_GB)
    try:
        gigabytes = float(given)
        limit = int(gigabytes * 1e9)
    except (ValueError, OverflowError):
        limit = -1
    if limit < 0:
        raise ConfigError(f"{SIZE_VARIABLE}={given}: not a size; give gigabytes, such as {DEFAULT_GB}, or 0 for none")
    folder = Path(environ.get(FOLDER_VARIABLE) or platformdirs.user_cache_dir("hab_ray"))
    if limit:
        folder = expanded(str(folder))
        refuse_others(folder, FOLDER_VARIABLE)
    return DiskCache(folder / "s3", limit)
