"""Copies on this node's disk of objects whose content is known by their name, or by name and ETag."""

from __future__ import annotations

from collections.abc import Callable

from hab_ray.storage.s3.cache import DiskCache
from hab_ray.storage.s3.names import is_as_named, is_named_by_content, is_view, is_written_once
from hab_ray.storage.s3.objects import Entry


class Copies:
    """Copies of the objects at an address.

    Of a name that does not hold a digest of its content, a copy serves while this process knows the ETag: from a
    listing, or because it wrote the object. `is_ours` says whether nobody else replaces what is under a name.
    """

    def __init__(self, cache: DiskCache, address: str, is_ours: Callable[[str], bool]) -> None:
        self._cache, self._address, self._is_ours = cache, address, is_ours
        self._entries: dict[str, Entry] = {}
        self._checked: set[str] = set()

    def note(self, name: str, entry: Entry | None) -> None:
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
