"""What a process knows of the objects in a folder without asking: listings, and copies on this node's disk."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from math import inf

from hab_ray.storage.s3.cache import DiskCache
from hab_ray.storage.s3.objects import ObjectEntry, Objects

LEASE, LEDGER = "lease", "ledger"

_NAMED_BY_CONTENT = re.compile(
    r"^(?:sidecars/)?(?:replies|embeddings|failures)/.+/part-\d+\.\d+\.[0-9a-f]{16}\.(?:parquet|arrow)$"
    r"|^ledger/.+/(?:rows|requests)-[0-9a-f]{16}$"
)
_PART = re.compile(r"^(?!sidecars/).+/part-\d+\.\d+\.([0-9a-f]{16})\.parquet$")
_WRITTEN_ONCE = re.compile(
    r"^(?:replies|embeddings|failures)/.+/(?:wal|part)-[^/]+$|^ledger/.+/\d+-[a-z]+\.json$|^runs/[^/]+/\d+\.json$"
    r"|^pending/.+\.parquet$"
)
_VIEW = re.compile(r"\.parquet$")
LISTED_FOR_S = 60.0


def is_named_by_content(name: str) -> bool:
    """Whether the name holds a digest of what is under it."""
    return bool(_NAMED_BY_CONTENT.match(name))


def is_as_named(name: str, data: bytes) -> bool:
    """Whether this may be what is under a name, as far as the name of a part says it: it ends with its digest."""
    part = _PART.match(name)
    return part is None or sha256(data).hexdigest().startswith(part.group(1))


def is_written_once(name: str) -> bool:
    """Whether nothing else comes under this name, unless somebody removes it by hand and begins anew."""
    return bool(_WRITTEN_ONCE.match(name))


def is_view(name: str) -> bool:
    """Whether it is a view of a run, which only the holder of the store's lease replaces."""
    return bool(_VIEW.search(name))


def is_claimable(top: str) -> bool:
    """Whether what is in this top folder changes only at the hands of the process that claimed the whole.

    Leases are taken over by others, and a former holder may still add to the ledger.
    """
    return top not in (LEASE, LEDGER)


class Copies:
    """Copies of the objects at an address.

    Of a name that does not hold a digest of its content, a copy serves while this process knows the ETag: from a
    listing, or because it wrote the object. `is_ours` says whether nobody else replaces what is under a name.
    """

    def __init__(self, cache: DiskCache, address: str, is_ours: Callable[[str], bool]) -> None:
        self._cache, self._address, self._is_ours = cache, address, is_ours
        self._entries: dict[str, ObjectEntry] = {}
        self._checked: set[str] = set()

    def note(self, name: str, entry: ObjectEntry | None) -> None:
        """Learn what is under a name by now; None: nothing."""
        if entry is None:
            self._entries.pop(name, None)
        elif is_written_once(name) or is_view(name):
            self._entries[name] = entry

    def size(self, name: str) -> int | None:
        """How many bytes are under a name, where that is known and does not change."""
        entry = self._entries.get(name)
        return entry.size if entry and is_written_once(name) else None

    def may_keep(self, name: str) -> bool:
        """Whether a copy of what is under a name now can be found again."""
        return self._label(name) is not None

    def get(self, name: str) -> bytes | None:
        """What is under a name; None where there is no copy."""
        label = self._label(name)
        data = self._cache.get(label) if label else None
        return data if data is None or is_as_named(name, data) else None

    def get_range(self, name: str, start: int, length: int) -> bytes | None:
        """So many bytes of what is under a name; None where there is no copy."""
        label = self._label(name)
        if label is None:
            return None
        if label not in self._checked:
            if self.get(name) is None:
                return None
            self._checked.add(label)
        return self._cache.get_range(label, start, length)

    def keep(self, name: str, data: bytes) -> None:
        """Make a copy of what was found or put under a name; its entry was noted before."""
        if label := self._label(name):
            self._cache.put(label, data)

    def _label(self, name: str) -> str | None:
        if is_named_by_content(name):
            return f"{self._address}{name}"
        entry = self._entries.get(name)
        if entry and (is_written_once(name) or self._is_ours(name)):
            return f"{self._address}{name}\n{entry.etag}"
        return None


class Listings:
    """Listings of top folders, kept up to date by this process's own writes and fetched again after `LISTED_FOR_S`.

    `fetch` lists what begins with a prefix. Writes that end meanwhile are taken in afterwards.
    """

    def __init__(self, fetch: Callable[[str], Iterable[tuple[str, ObjectEntry]]]) -> None:
        self._fetch = fetch
        self._is_used = False
        self._names: dict[str, dict[str, ObjectEntry]] = {}
        self._fetched_at: dict[str, float] = {}
        self._meanwhile: dict[str, list[tuple[str, ObjectEntry | None]]] = {}
        self._lock = threading.Lock()
        self._fetching: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def use(self) -> None:
        """Answer from listings from now on, fetched anew: others may have written until now."""
        with self._lock:
            self._is_used = True
            self._fetched_at.clear()

    def covers(self, name: str) -> bool:
        """Whether listings say what there is under a name or prefix."""
        top, separator, _ = name.partition("/")
        return self._is_used and bool(separator) and is_claimable(top)

    def around(self, name: str) -> Mapping[str, ObjectEntry]:
        """All objects of the top folder of a name or prefix."""
        top = name.partition("/")[0]
        with self._lock:
            fetching = self._fetching[top]
        with fetching:
            with self._lock:
                if time.monotonic() - self._fetched_at.get(top, -inf) < LISTED_FOR_S:
                    return dict(self._names[top])
                self._meanwhile[top] = []
            began, found = time.monotonic(), dict(self._fetch(f"{top}/"))
            with self._lock:
                for changed, entry in self._meanwhile.pop(top):
                    _apply(found, changed, entry)
                self._names[top], self._fetched_at[top] = found, began
                return dict(found)

    def note(self, name: str, entry: ObjectEntry | None) -> None:
        """Take in what this process has put under a name; None: it was deleted."""
        top = name.partition("/")[0]
        with self._lock:
            if top in self._names:
                _apply(self._names[top], name, entry)
            if top in self._meanwhile:
                self._meanwhile[top].append((name, entry))


def _apply(names: dict[str, ObjectEntry], name: str, entry: ObjectEntry | None) -> None:
    if entry is None:
        names.pop(name, None)
    else:
        names[name] = entry


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

    def _fetched(self, inside: str) -> Iterator[tuple[str, ObjectEntry]]:
        for name, entry in self._objects.list(inside):
            self.copies.note(name, entry)
            yield name, entry

    def entry(self, name: str) -> ObjectEntry:
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

    def wrote(self, name: str, entry: ObjectEntry, data: bytes) -> None:
        """Take in what this process has put under a name."""
        self.note(name, entry)
        self.copies.keep(name, data)

    def moved(self, name: str, to: str, etag: str) -> None:
        """Take in that this process has copied what is under a name to another; the ETag is that of the copy."""
        data = self.copies.get(name)
        if data is not None:
            self.wrote(to, ObjectEntry.of(etag, len(data)), data)
        else:
            self.note(to, self._objects.head(to) if self._listings.covers(to) else None)

    def note(self, name: str, entry: ObjectEntry | None) -> None:
        """Take in what is under a name since this process changed it; None: nothing, or that is not known."""
        self.copies.note(name, entry)
        self._listings.note(name, entry)
