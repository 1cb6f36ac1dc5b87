"""The primitives every stored file goes through: list, exists, size, get, get_range, put, put_new, move, delete, clear.

`put` replaces atomically. `put_new` creates, and fails if the name exists: of two writers exactly one wins,
which is what the lease and the ledger stand on. Names are relative, with `/` between parts. On
disk, files are their user's alone (`storage.modes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.storage.local import LocalFolder

__all__ = ["Folder", "LocalFolder", "open_folder"]


class Folder(Protocol):
    """A place that holds named blobs. Its methods may be called in any thread.

    Raises:
        ConfigError: it is in a bucket that cannot be used.
        FileNotFoundError: nothing is under a name that is read, measured or moved.
    """

    @property
    def is_remote(self) -> bool:
        """Whether each request is charged for and takes tens of milliseconds."""

    def claim(self) -> None:
        """Trust from now on that no other process writes here, but for leases and the ledger.

        For the holder of the store's lease whose workers are all in this process: most lookups then need no request.
        """

    def list(self, prefix: str = "") -> Sequence[str]:
        """All names under a prefix folder ("" = all), sorted; a prefix nobody wrote to is empty."""

    def exists(self, name: str) -> bool:
        """Whether something is under a name."""

    def size(self, name: str) -> int:
        """How many bytes are under a name."""

    def get(self, name: str) -> bytes:
        """The bytes under a name."""

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """So many of the bytes under a name, fewer where it ends before."""

    def put(self, name: str, data: bytes) -> None:
        """Write or atomically replace."""

    def put_new(self, name: str, data: bytes) -> None:
        """Write, unless the name exists.

        Raises:
            FileExistsError: it does.
        """

    def delete(self, name: str) -> None:
        """Remove; a name that is not there is fine."""

    def move(self, name: str, to: str) -> None:
        """Atomically replace what is under another name of this folder by this."""

    def clear(self, prefix: str) -> None:
        """Remove everything under a prefix folder; one that nobody wrote to is fine."""


def open_folder(location: Location) -> Folder:
    """The folder at a location. In a bucket it is one object for all of this process.

    Raises:
        ConfigError: it is neither on this machine nor in a bucket, or boto3 is missing.
    """
    if location.is_local:
        return LocalFolder(location.path)
    if location.is_s3:
        from hab_ray.storage.s3.folder import s3_folder  # most runs need none of it

        return s3_folder(location.bucket, location.prefix)
    raise ConfigError(
        f"{location}: not a place for runs and stores; give a folder on this machine or s3://bucket/prefix"
    )
