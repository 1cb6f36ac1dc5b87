"""Folders around other folders: for tests to count what is fetched, or to change what happens."""

from collections import Counter
from collections.abc import Sequence

from hab_ray.storage.folder import Folder


class Through:
    """A folder around another one, for tests to change what it does."""

    def __init__(self, inner: Folder) -> None:
        self.inner = inner

    @property
    def is_remote(self) -> bool:
        return self.inner.is_remote

    def claim(self) -> None:
        self.inner.claim()

    def release(self) -> None:
        self.inner.release()

    def list(self, prefix: str = "") -> Sequence[str]:
        return self.inner.list(prefix)

    def exists(self, name: str) -> bool:
        return self.inner.exists(name)

    def size(self, name: str) -> int:
        return self.inner.size(name)

    def get(self, name: str) -> bytes:
        return self.inner.get(name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        return self.inner.get_range(name, start, length)

    def put(self, name: str, data: bytes) -> None:
        self.inner.put(name, data)

    def put_new(self, name: str, data: bytes) -> None:
        self.inner.put_new(name, data)

    def delete(self, name: str) -> None:
        self.inner.delete(name)

    def move(self, name: str, to: str) -> None:
        self.inner.move(name, to)

    def clear(self, prefix: str) -> None:
        self.inner.clear(prefix)


class CountingFolder(Through):
    """A folder that counts what is fetched from it, by name, and its listings."""

    def __init__(self, inner: Folder) -> None:
        super().__init__(inner)
        self.fetched: Counter[str] = Counter()
        self.listings = 0

    def list(self, prefix: str = "") -> Sequence[str]:
        self.listings += 1
        return super().list(prefix)

    def get(self, name: str) -> bytes:
        self.fetched[name] += 1
        return super().get(name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        self.fetched[name] += 1
        return super().get_range(name, start, length)

    def parts(self) -> Counter[str]:
        """Of the fetches, those of compacted parts."""
        return Counter({name: count for name, count in self.fetched.items() if name.endswith(".parquet")})


class Killed(Exception):
    """The process ends here."""


class Dying(Through):
    """A folder whose process is killed before it changes something for the n-th time, counted from 0."""

    def __init__(self, inner: Folder, changes: int) -> None:
        super().__init__(inner)
        self._left = changes

    def _change(self) -> None:
        if self._left == 0:
            raise Killed
        self._left -= 1

    def put(self, name: str, data: bytes) -> None:
        self._change()
        super().put(name, data)

    def put_new(self, name: str, data: bytes) -> None:
        self._change()
        super().put_new(name, data)

    def delete(self, name: str) -> None:
        self._change()
        super().delete(name)
