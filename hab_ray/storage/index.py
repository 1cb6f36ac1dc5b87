"""Which file holds which key of a model, and what its rows say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from hab_ray.calls import Outcome
from hab_ray.storage.folder import Folder
from hab_ray.storage.keyindex import KeyIndex
from hab_ray.storage.rows import RowReader
from hab_ray.storage.shelves import Shelf, is_part, outcomes_of, prefix_of
from hab_ray.storage.sidecars import entries_in


class ModelIndex:
    """One model's records on one shelf, of the files that `accept` takes; `reader` reads their rows."""

    def __init__(
        self, folder: Folder, reader: RowReader, shelf: Shelf, model: str, accept: Callable[[str], bool]
    ) -> None:
        self._folder, self._reader, self._shelf, self._accept = folder, reader, shelf, accept
        self._prefix = prefix_of(shelf, model)
        self._seen: set[str] = set()
        self._files: list[str] = []
        self.keys = KeyIndex()

    @property
    def is_used(self) -> bool:
        """Whether it knows of any file."""
        return bool(self._files)

    def refresh(self) -> None:
        """Take in the files that came since the last look; again, where a compaction removed one of them."""
        while True:
            try:
                for name in self._unseen():
                    self._take_in(name)
                return
            except FileNotFoundError:
                continue

    def _unseen(self) -> list[str]:
        """Names not yet taken in, parts last: where a key stands in both, the file that stays serves it."""
        names = (n for n in self._folder.list(self._prefix) if n not in self._seen and self._accept(n))
        return sorted(names, key=is_part)

    def _take_in(self, name: str) -> None:
        self.keys.add_keys(entries_in(self._folder, name).keys, len(self._files))
        self._files.append(name)
        self._seen.add(name)

    def read(self, keys: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of those keys that are here. A file that a compaction removed since is looked for anew."""
        while True:
            try:
                return self._read(keys)
            except FileNotFoundError:
                self._seen.clear()
                self._files.clear()
                self.keys.clear()
                self.refresh()

    def _read(self, keys: Sequence[str]) -> dict[str, Outcome]:
        rows_of: dict[str, list[int]] = defaultdict(list)
        for place in self.keys.places(keys).values():
            rows_of[self._files[place.file]].append(place.row)
        found: dict[str, Outcome] = {}
        for file in self._reader.kept_first(rows_of):
            table = self._reader.read(file, sorted(rows_of[file]))
            found.update((outcome.key, outcome) for outcome in outcomes_of(self._shelf, table))
        return found
