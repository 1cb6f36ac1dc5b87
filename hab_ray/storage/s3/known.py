"""What a process knows about the objects in a folder without a request: listings, and copies on this node's disk."""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from math import inf

from hab_ray.storage.s3.cache import DiskCache
from hab_ray.storage.s3.objects import ObjectEntry

_NAMED_BY_CONTENT = re.compile(
    r"^(?:sidecars/)?(?:replies|embeddings|failures)/.+/part-\d+\.\d+\.[0-9a-f]{16}\.(?:parquet|arrow)$"
    r"|^ledger/.+/rows-[0-9a-f]{16}$"
)
_DIGEST = re.compile(r"^(?!sidecars/).+/(?:part-\d+\.\d+\.([0-9a-f]{16})\.parquet|rows-([0-9a-f]{16}))$")
_WRITTEN_ONCE = re.compile(
    r"^(?:replies|embeddings|failures)/.+/(?:wal|part)-[^/]+$|^ledger/.+/\d+-[a-z]+\.json$|^runs/[^/]+/\d+\.json$"
    r"|^pending/.+\.parquet$"
)
_VIEW = ".parquet"  # of a run, replaced only by the holder of the store's lease
LISTED_FOR_S = 60.0


class Copies:
    """Cached copies of the objects at an address.

    Names with a digest of the content always identify a copy. Other copies are used only while this process knows the
    ETag, from a listing or from its own write. `is_ours` tells whether only this process writes to a name.
    """

    def __init__(self, cache: DiskCache, address: str, is_ours: Callable[[str], bool]) -> None:
        self._cache, self._address, self._is_ours = cache, address, is_ours
        self._entries: dict[str, ObjectEntry] = {}
        self._checked: set[str] = set()

    def note(self, name: str, entry: ObjectEntry | None) -> None:
        """Record the object that now has this name; None if there is none."""
        if entry is None:
            self._entries.pop(name, None)
        elif _WRITTEN_ONCE.match(name) or name.endswith(_VIEW):
            self._entries[name] = entry

    def note_seen(self, name: str, entry: ObjectEntry) -> None:
        """Record an object that was read or listed; a view may have been replaced by this process meanwhile."""
        if _WRITTEN_ONCE.match(name):
            self._entries[name] = entry

    def forget(self) -> None:
        """Forget which object has which name, because others may have written."""
        self._entries.clear()

    def size(self, name: str) -> int | None:
        """Return the size of an immutable object in bytes; None if unknown."""
        entry = self._entries.get(name)
        return entry.size if entry and _WRITTEN_ONCE.match(name) else None

    def may_keep(self, name: str) -> bool:
        """Return whether the current object under a name can be cached."""
        entry = self._entries.get(name)
        return self._cache.takes(entry.size if entry else 1) and self._label(name, entry) is not None

    def get(self, name: str) -> bytes | None:
        """Return the copy of an object; None if there is none."""
        label = self._current_label(name)
        data = self._cache.get(label) if label else None
        stated = _DIGEST.match(name)
        if data is None or (stated and not sha256(data).hexdigest().startswith(stated[1] or stated[2])):
            return None
        return data

    def get_range(self, name: str, start: int, length: int) -> bytes | None:
        """Return part of the copy of an object; None if there is none."""
        label = self._current_label(name)
        if label is None:
            return None
        if label not in self._checked:
            if self.get(name) is None:
                return None
            self._checked.add(label)
        data = self._cache.get_range(label, start, length)
        if data is None:
            self._checked.discard(label)
        return data

    def keep(self, name: str, entry: ObjectEntry, data: bytes) -> None:
        """Cache an object that was read or written."""
        if label := self._label(name, entry):
            self._cache.put(label, data)

    def _current_label(self, name: str) -> str | None:
        return self._label(name, self._entries.get(name))

    def _label(self, name: str, entry: ObjectEntry | None) -> str | None:
        if _NAMED_BY_CONTENT.match(name):
            return f"{self._address}{name}"
        if entry and (_WRITTEN_ONCE.match(name) or self._is_ours(name)):
            return f"{self._address}{name}\n{entry.etag}"
        return None


class Listings:
    """Listings of top-level folders, updated with this process's own writes and fetched again after `LISTED_FOR_S`.

    `fetch` lists the names with a prefix. Writes that end while a listing is fetched are applied to it afterwards.
    `current` is then called for each name, and at each write, in the order in which they took effect.
    """

    def __init__(
        self,
        fetch: Callable[[str], Iterable[tuple[str, ObjectEntry]]],
        current: Callable[[str, ObjectEntry | None], None],
    ) -> None:
        self._fetch, self._current = fetch, current
        self._is_used = False
        self._names: dict[str, dict[str, ObjectEntry]] = {}
        self._fetched_at: dict[str, float] = {}
        self._meanwhile: dict[str, list[tuple[str, ObjectEntry | None]]] = {}
        self._lock = threading.Lock()
        self._fetching: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def use(self) -> None:
        """Answer from listings from now on. All are fetched anew, because others may have written before."""
        with self._lock:
            self._is_used = True
            self._fetched_at.clear()

    def stop(self) -> None:
        """Answer from listings no more: `covers` nothing, because others may write from now on."""
        self._is_used = False

    def covers(self, name: str) -> bool:
        """Return whether listings answer for a name or prefix.

        They do not for leases, which other processes take over, nor for the ledger, which a former holder may still
        write to.
        """
        top, separator, _ = name.partition("/")
        return self._is_used and bool(separator) and top not in ("lease", "ledger")

    def find(self, name: str) -> ObjectEntry | None:
        """Return the entry of an object; None if it does not exist."""
        with self._listed(name) as names:
            return names.get(name)

    def names(self, prefix: str) -> list[str]:
        with self._listed(prefix) as names:
            return sorted(name for name in names if name.startswith(prefix))

    @contextmanager
    def _listed(self, name: str) -> Iterator[Mapping[str, ObjectEntry]]:
        """Yield, under the lock, a fresh listing of the top-level folder of a name or prefix."""
        top = name.partition("/")[0]
        with self._lock:
            fetching = self._fetching[top]
        with fetching:
            with self._lock:
                is_fresh = time.monotonic() - self._fetched_at.get(top, -inf) < LISTED_FOR_S
            if not is_fresh:
                self._refresh(top)
        with self._lock:
            yield self._names[top]

    def _refresh(self, top: str) -> None:
        with self._lock:
            self._meanwhile[top] = []
        began, found = time.monotonic(), dict(self._fetch(f"{top}/"))
        with self._lock:
            for changed, entry in self._meanwhile.pop(top):
                _apply(found, changed, entry)
            for name, entry in found.items():
                self._current(name, entry)
            self._names[top], self._fetched_at[top] = found, began

    def note(self, name: str, entry: ObjectEntry | None) -> None:
        """Record a write of this process; `entry` is None if it deleted the object."""
        top = name.partition("/")[0]
        with self._lock:
            if top in self._names:
                _apply(self._names[top], name, entry)
            if top in self._meanwhile:
                self._meanwhile[top].append((name, entry))
            self._current(name, entry)


def _apply(names: dict[str, ObjectEntry], name: str, entry: ObjectEntry | None) -> None:
    if entry is None:
        names.pop(name, None)
    else:
        names[name] = entry
