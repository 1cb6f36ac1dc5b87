"""Listings of folders that this process alone changes."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import inf

from hab_ray.storage.s3.names import is_claimable
from hab_ray.storage.s3.objects import Entry

LISTED_FOR_S = 60.0


class Listings:
    """Listings of top folders, kept up to date by this process's own writes and fetched again after `LISTED_FOR_S`.

    `fetch` lists what begins with a prefix. Writes that end meanwhile are taken in afterwards.
    """

    def __init__(self, fetch: Callable[[str], Iterable[tuple[str, Entry]]]) -> None:
        self._fetch = fetch
        self._is_used = False
        self._names: dict[str, dict[str, Entry]] = {}
        self._fetched_at: dict[str, float] = {}
        self._meanwhile: dict[str, list[tuple[str, Entry | None]]] = {}
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

    def around(self, name: str) -> Mapping[str, Entry]:
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

    def note(self, name: str, entry: Entry | None) -> None:
        """Take in what this process has put under a name; None: it was deleted."""
        top = name.partition("/")[0]
        with self._lock:
            if top in self._names:
                _apply(self._names[top], name, entry)
            if top in self._meanwhile:
                self._meanwhile[top].append((name, entry))


def _apply(names: dict[str, Entry], name: str, entry: Entry | None) -> None:
    if entry is None:
        names.pop(name, None)
    else:
        names[name] = entry
