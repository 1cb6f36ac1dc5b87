"""The storage primitives: list, exists, size, get, get_range, put, put_new, move, delete, clear.

`put` replaces atomically. `put_new` fails if the name exists, so exactly one of two writers wins; the lease and the
ledger rely on it. Names are relative and use `/` as separator. On disk, files are private to their user (see
`storage.modes`).
"""

from collections.abc import Sequence
from typing import Protocol

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.storage.local import LocalFolder

__all__ = ["Folder", "LocalFolder", "open_folder", "reach"]

FIRST_ANSWER_S = 15.0


class Folder(Protocol):
    """A thread-safe container of named blobs.

    Raises:
        ConfigError: the folder is in a bucket that cannot be used.
        FileNotFoundError: the name to read, measure or move does not exist.
    """

    @property
    def is_remote(self) -> bool:
        """Whether each request costs money and takes tens of milliseconds."""

    def claim(self) -> None:
        """Assume from now on that no other process writes here, except to leases and the ledger.

        Only the holder of the store's lease may call this, and only if all its workers run in this process. Most
        lookups then need no request, until `release`.
        """

    def release(self) -> None:
        """End what `claim` began: other processes may write here again."""

    def list(self, prefix: str = "") -> Sequence[str]:
        """Return all names under a prefix folder ("" for all), sorted; none if the prefix does not exist."""

    def exists(self, name: str) -> bool:
        """Return whether a blob has this name."""

    def size(self, name: str) -> int:
        """Return the size of a blob in bytes."""

    def get(self, name: str) -> bytes:
        """Return the content of a blob."""

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Return `length` bytes of a blob from `start` on, or fewer if it ends earlier."""

    def put(self, name: str, data: bytes) -> None:
        """Write a blob, or replace it atomically."""

    def put_new(self, name: str, data: bytes) -> None:
        """Write a blob under a new name; raise FileExistsError if the name exists."""

    def delete(self, name: str) -> None:
        """Remove a blob if it exists."""

    def move(self, name: str, to: str) -> None:
        """Rename a blob within this folder, atomically replacing the target."""

    def clear(self, prefix: str) -> None:
        """Remove everything under a prefix folder, if it exists."""


def open_folder(location: Location) -> Folder:
    """Return the folder at a location; in a bucket, the one object that this process shares.

    Raises:
        ConfigError: the location is neither on this machine nor in a bucket, or boto3 is missing.
    """
    if location.is_local:
        return LocalFolder(location.path)
    if location.is_s3:
        from hab_ray.storage.s3.folder import s3_folder  # boto3 is optional and slow to import

        return s3_folder(location.bucket, location.prefix)
    raise ConfigError(
        f"{location}: not a place for runs and stores; give a folder on this machine or s3://bucket/prefix"
    )


def reach(location: Location) -> Folder:
    """Open the folder at a location after checking that its bucket, if any, exists and may be used.

    Only this first request has a time limit. Later ones are retried until the bucket answers, because by then a run may
    hold replies that it has paid for. Raise ConfigError if the bucket cannot be used, or did not answer within
    `FIRST_ANSWER_S`.
    """
    if location.is_s3:
        from hab_ray.storage.s3.folder import s3_folder

        s3_folder(location.bucket, location.prefix).objects.reach(FIRST_ANSWER_S)
    return open_folder(location)
