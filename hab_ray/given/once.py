"""What a command has read of the files that its sweep gives, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class ReadOnce:
    """Keeps what was read under a key for as long as its command lasts. It is not pickled: a worker reads anew."""

    def __init__(self) -> None:
        self._read: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple[type[ReadOnce], tuple[()]]:
        return ReadOnce, ()

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """What stands under the key, read if it was not yet. What raises is read again."""
        if key not in self._read:
            self._read[key] = read()
        found: T = self._read[key]
        return found

    def forget(self) -> None:
        """Free the memory."""
        self._read.clear()
