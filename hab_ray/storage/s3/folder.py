"""A folder in an S3 bucket. Requests cost money and time, so what is known is not asked for again."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache

from hab_ray.storage.s3.cache import FOLDER_VARIABLE, SIZE_VARIABLE, DiskCache, node_cache
from hab_ray.storage.s3.connection import Connection, connect
from hab_ray.storage.s3.copies import Copies
from hab_ray.storage.s3.listings import Listings
from hab_ray.storage.s3.objects import Entry, Objects
from hab_ray.storage.s3.requests import Requests


class S3Folder:
    """A prefix of a bucket. See `Folder` for its methods. `cache` keeps on this node's disk what never changes."""

    is_remote = True

    def __init__(self, objects: Objects, cache: DiskCache) -> None:
        self._objects = objects
        self._listings = Listings(self._fetched)
        self._copies = Copies(cache, objects.address, self._listings.covers)

    def claim(self) -> None:
        """See Folder. Listings are fetched once in a while and kept up to date by this process's own writes."""
        self._listings.use()

    def reach(self, longest_s: float) -> None:
        """See Objects."""
        self._objects.reach(longest_s)

    def list(self, prefix: str = "") -> Sequence[str]:
        """See Folder."""
        inside = f"{prefix.rstrip('/')}/" if prefix else ""
        if self._listings.covers(inside):
            return sorted(name for name in self._listings.around(inside) if name.startswith(inside))
        return sorted(name for name, _ in self._fetched(inside))

    def _fetched(self, inside: str) -> Iterator[tuple[str, Entry]]:
        for name, entry in self._objects.list(inside):
            self._copies.note(name, entry)
            yield name, entry

    def _entry(self, name: str) -> Entry:
        """What is under a name.

        Raises:
            FileNotFoundError: nothing is there.
        """
        if not self._listings.covers(name):
            return self._objects.head(name)
        entry = self._listings.around(name).get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return entry

    def exists(self, name: str) -> bool:
        """See Folder."""
        try:
            self._entry(name)
        except FileNotFoundError:
            return False
        return True

    def size(self, name: str) -> int:
        """See Folder."""
        known = self._copies.size(name)
        return known if known is not None else self._entry(name).size

    def get(self, name: str) -> bytes:
        """See Folder."""
        kept = self._copies.get(name)
        if kept is not None:
            return kept
        data, entry = self._objects.get(name)
        self._copies.note(name, entry)
        self._copies.keep(name, data)
        return data

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """See Folder. What this node may keep is fetched whole."""
        if not self._copies.may_keep(name):
            return self._objects.get_range(name, start, length)
        kept = self._copies.get_range(name, start, length)
        return kept if kept is not None else self.get(name)[start : start + length]

    def put(self, name: str, data: bytes) -> None:
        """See Folder."""
        self._wrote(name, self._objects.put(name, data), data)

    def put_new(self, name: str, data: bytes) -> None:
        """See Folder."""
        self._wrote(name, self._objects.put_new(name, data), data)

    def put_new_private(self, name: str, data: bytes) -> None:
        """See Folder."""
        self.put_new(name, data)

    def _wrote(self, name: str, entry: Entry, data: bytes) -> None:
        self._note(name, entry)
        self._copies.keep(name, data)

    def _note(self, name: str, entry: Entry | None) -> None:
        self._copies.note(name, entry)
        self._listings.note(name, entry)

    def delete(self, name: str) -> None:
        """See Folder."""
        self._objects.delete([name])
        self._note(name, None)

    def move(self, name: str, to: str) -> None:
        """See Folder."""
        data, etag = self._copies.get(name), self._objects.copy(name, to)
        if data is None:
            self._note(to, self._objects.head(to) if self._listings.covers(to) else None)
        else:
            self._wrote(to, Entry.of(etag, len(data)), data)
        self.delete(name)

    def clear(self, prefix: str) -> None:
        """See Folder."""
        names = self.list(prefix)
        self._objects.delete(names)
        for name in names:
            self._note(name, None)


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
    return S3Folder(Objects(Requests(connection, bucket), bucket, prefix), node_cache(os.environ))
