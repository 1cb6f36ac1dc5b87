"""What a process knows of the objects in a folder without asking: listings, and copies on this node's disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator

from hab_ray.storage.s3.cache import DiskCache
from hab_ray.storage.s3.copies import Copies
from hab_ray.storage.s3.listings import Listings
from hab_ray.storage.s3.objects import Entry, Objects


class Known:
    """What is known of some objects. Until `claim`, listings and heads are fetched each time."""

    def __init__(self, objects: Objects, cache: DiskCache) -> None:
        self._objects = objects
        self._listings = Listings(self._fetched)
        self.copies = Copies(cache, objects.address, self._listings.covers)

    def claim(self) -> None:
        """Have nobody but this process write here, but for leases and the ledger."""
        self._listings.use()

    def names(self, inside: str) -> Iterable[str]:
        """The names that begin so."""
        if self._listings.covers(inside):
            return [name for name in self._listings.around(inside) if name.startswith(inside)]
        return [name for name, _ in self._fetched(inside)]

    def _fetched(self, inside: str) -> Iterator[tuple[str, Entry]]:
        for name, entry in self._objects.list(inside):
            self.copies.note(name, entry)
            yield name, entry

    def entry(self, name: str) -> Entry:
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

    def wrote(self, name: str, entry: Entry, data: bytes) -> None:
        """Take in what this process has put under a name."""
        self.note(name, entry)
        self.copies.keep(name, data)

    def moved(self, name: str, to: str, etag: str) -> None:
        """Take in that this process has copied what is under a name to another; the ETag is that of the copy."""
        data = self.copies.get(name)
        if data is not None:
            self.wrote(to, Entry.of(etag, len(data)), data)
        else:
            self.note(to, self._objects.head(to) if self._listings.covers(to) else None)

    def note(self, name: str, entry: Entry | None) -> None:
        """Take in what is under a name since this process changed it; None: nothing, or that is not known."""
        self.copies.note(name, entry)
        self._listings.note(name, entry)
