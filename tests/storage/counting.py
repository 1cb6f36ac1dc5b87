"""A folder that counts what is fetched from it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hab_ray.storage.folder import LocalFolder


class CountingFolder(LocalFolder):
    """Counts fetches by name."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.fetched: Counter[str] = Counter()

    def get(self, name: str) -> bytes:
        self.fetched[name] += 1
        return super().get(name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        self.fetched[name] += 1
        return super().get_range(name, start, length)

    def parts(self) -> Counter[str]:
        """Of the fetches, those of compacted parts."""
        return Counter({name: count for name, count in self.fetched.items() if name.endswith(".parquet")})
