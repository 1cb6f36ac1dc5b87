"""A cache of given files, so that a command reads each of them once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class ReadOnce:
    """Caches what was read, by key, while a command runs. Pickling drops the contents: a worker reads again."""

    def __init__(self) -> None:
        self._read: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple[type[ReadOnce], tuple[()]]:
        return ReadOnce, ()

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return the value of a key, and read it first if necessary. Errors are not cached."""
        if key not in self._read:
            self._read[key] = read()
        value: T = self._read[key]
        return value

    def forget(self) -> None:
        """Free the memory."""
        self._read.clear()
