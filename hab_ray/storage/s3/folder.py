"""A folder in an S3 bucket. Requests cost money and time, so known objects are not requested again."""

import errno
import os
from collections.abc import Sequence
from functools import lru_cache

from hab_ray.storage.s3.cache import FOLDER_VARIABLE, SIZE_VARIABLE, DiskCache, node_cache
from hab_ray.storage.s3.connection import Connection, connect
from hab_ray.storage.s3.known import Copies, Listings
from hab_ray.storage.s3.objects import ObjectEntry, Objects
from hab_ray.storage.s3.requests import Requests


class S3Folder:
    """A prefix of a bucket, with the methods of `Folder`. `cache` holds immutable objects on this node's disk.

    Except between `claim` and `release`, listings and object metadata are fetched each time.
    """

    is_remote = True

    def __init__(self, objects: Objects, cache: DiskCache) -> None:
        self.objects = objects
        self._copies = Copies(cache, objects.address, lambda name: self._listings.covers(name))
        self._listings = Listings(objects.list, self._copies.note)

    def claim(self) -> None:
        """From now on, fetch listings only occasionally and update them with this process's writes."""
        self._copies.forget()
        self._listings.use()

    def release(self) -> None:
        """Fetch listings each time again."""
        self._listings.stop()

    def list(self, prefix: str = "") -> Sequence[str]:
        inside = f"{prefix.rstrip('/')}/" if prefix else ""
        if self._listings.covers(inside):
            return self._listings.names(inside)
        found = dict(self.objects.list(inside))
        for name, entry in found.items():
            self._copies.note_seen(name, entry)
        return sorted(found)

    def exists(self, name: str) -> bool:
        try:
            self._entry(name)
        except FileNotFoundError:
            return False
        return True

    def size(self, name: str) -> int:
        known = self._copies.size(name)
        return known if known is not None else self._entry(name).size

    def _entry(self, name: str) -> ObjectEntry:
        if not self._listings.covers(name):
            return self.objects.head(name)
        entry = self._listings.find(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return entry

    def get(self, name: str) -> bytes:
        kept = self._copies.get(name)
        if kept is not None:
            return kept
        data, entry = self.objects.get(name)
        self._copies.note_seen(name, entry)
        self._copies.keep(name, entry, data)
        return data

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Fetch an object whole if it can be cached."""
        if not self._copies.may_keep(name):
            return self.objects.get_range(name, start, length)
        kept = self._copies.get_range(name, start, length)
        return kept if kept is not None else self.get(name)[start : start + length]

    def put(self, name: str, data: bytes) -> None:
        self._note(name, self.objects.put(name, data), data)

    def put_new(self, name: str, data: bytes) -> None:
        self._note(name, self.objects.put_new(name, data), data)

    def delete(self, name: str) -> None:
        self.objects.delete([name])
        self._note(name, None)

    def move(self, name: str, to: str) -> None:
        etag, data = self.objects.copy(name, to), self._copies.get(name)
        if data is not None:
            self._note(to, ObjectEntry.of(etag, len(data)), data)
        else:
            self._note(to, self.objects.head(to) if self._listings.covers(to) else None)
        self.delete(name)

    def clear(self, prefix: str) -> None:
        names = self.list(prefix)
        self.objects.delete(names)
        for name in names:
            self._note(name, None)

    def _note(self, name: str, entry: ObjectEntry | None, data: bytes | None = None) -> None:
        """Record a change by this process; `entry` is None if the object is deleted or unknown."""
        self._listings.note(name, entry)
        if entry is not None and data is not None:
            self._copies.keep(name, entry, data)


def s3_folder(bucket: str, prefix: str) -> S3Folder:
    """Return this process's folder for a prefix of a bucket and the current AWS_* variables.

    Raises:
        ConfigError: boto3 is missing or its settings are invalid, or HAB_CACHE_GB is not a size.
    """
    cache = os.environ.get(FOLDER_VARIABLE), os.environ.get(SIZE_VARIABLE)
    return _opened(connect(), bucket, prefix, cache)


@lru_cache(maxsize=64)
def _opened(connection: Connection, bucket: str, prefix: str, _cache: tuple[str | None, str | None]) -> S3Folder:
    """Create one folder per connection and cache, so that the whole process shares its listings and copies."""
    return S3Folder(Objects(_requests(connection, bucket), bucket, prefix), node_cache(os.environ))


@lru_cache(maxsize=16)
def _requests(connection: Connection, bucket: str) -> Requests:
    """Create one instance per bucket, so that an outage is logged once."""
    return Requests(connection, bucket)
