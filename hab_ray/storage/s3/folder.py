"""A folder in an S3 bucket. Requests cost money and time, so what is known is not asked for again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

from hab_ray.storage.s3.cache import FOLDER_VARIABLE, SIZE_VARIABLE, DiskCache, node_cache
from hab_ray.storage.s3.connection import Connection, connect
from hab_ray.storage.s3.known import Known
from hab_ray.storage.s3.objects import Objects
from hab_ray.storage.s3.requests import Requests


class S3Folder:
    """A prefix of a bucket. See `Folder` for its methods. `cache` keeps on this node's disk what never changes."""

    is_remote = True

    def __init__(self, objects: Objects, cache: DiskCache) -> None:
        self.objects = objects
        self._known = Known(objects, cache)

    def claim(self) -> None:
        """Listings are fetched once in a while and kept up to date by this process's own writes."""
        self._known.claim()

    def list(self, prefix: str = "") -> Sequence[str]:
        return sorted(self._known.names(f"{prefix.rstrip('/')}/" if prefix else ""))

    def exists(self, name: str) -> bool:
        try:
            self._known.entry(name)
        except FileNotFoundError:
            return False
        return True

    def size(self, name: str) -> int:
        known = self._known.copies.size(name)
        return known if known is not None else self._known.entry(name).size

    def get(self, name: str) -> bytes:
        copies = self._known.copies
        kept = copies.get(name)
        if kept is not None:
            return kept
        data, entry = self.objects.get(name)
        copies.note(name, entry)
        copies.keep(name, data)
        return data

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """What this node may keep is fetched whole."""
        if not self._known.copies.may_keep(name):
            return self.objects.get_range(name, start, length)
        kept = self._known.copies.get_range(name, start, length)
        return kept if kept is not None else self.get(name)[start : start + length]

    def put(self, name: str, data: bytes) -> None:
        self._known.wrote(name, self.objects.put(name, data), data)

    def put_new(self, name: str, data: bytes) -> None:
        self._known.wrote(name, self.objects.put_new(name, data), data)

    def delete(self, name: str) -> None:
        self.objects.delete([name])
        self._known.note(name, None)

    def move(self, name: str, to: str) -> None:
        self._known.moved(name, to, self.objects.copy(name, to))
        self.delete(name)

    def clear(self, prefix: str) -> None:
        names = self.list(prefix)
        self.objects.delete(names)
        for name in names:
            self._known.note(name, None)


def s3_folder(bucket: str, prefix: str) -> S3Folder:
    """The folder of this process at a place in a bucket, for the present AWS_* variables.

    Raises:
        ConfigError: boto3 is missing or its settings make no connection, or HAB_CACHE_GB is not a size.
    """
    cache = os.environ.get(FOLDER_VARIABLE), os.environ.get(SIZE_VARIABLE)
    return _opened(connect(), bucket, prefix, cache)


@lru_cache(maxsize=64)
def _opened(connection: Connection, bucket: str, prefix: str, _cache: tuple[str | None, str | None]) -> S3Folder:
    """One for each connection and cache, so that all of a process shares what is known."""
    return S3Folder(Objects(_requests(connection, bucket), bucket, prefix), node_cache(os.environ))


@lru_cache(maxsize=16)
def _requests(connection: Connection, bucket: str) -> Requests:
    """One for each bucket, so that an outage is told once."""
    return Requests(connection, bucket)
