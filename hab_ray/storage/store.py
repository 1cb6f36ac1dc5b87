"""The store: paid replies, embeddings and permanent failures, found again by their calls' keys.

    replies/<model>/wal-<epoch>-<writer>.<n>.arrow     what came in, up to 64 replies or one second a file
    replies/<model>/part-<epoch>.<n>.parquet           the same, compacted
    embeddings/<model>/...   failures/<model>/...      likewise

A file is written once and never changed. A key may stand in several files (a compaction that was interrupted,
a call repeated after a crash): any of them serves.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa

from hab_ray.calls import Failure, Outcome
from hab_ray.catalog import folder_name
from hab_ray.errors import FailureKind
from hab_ray.prices import Mode
from hab_ray.storage.folder import Folder
from hab_ray.storage.keyindex import KeyIndex
from hab_ray.storage.records import (
    failures_from_table,
    failures_to_table,
    in_one,
    read_table,
    replies_from_table,
    replies_to_table,
    to_arrow,
    to_parquet,
)

_EPOCH = re.compile(r"/(?:wal|part)-(\d+)")
_UNSTORABLE = (pa.ArrowException, ArithmeticError, TypeError, ValueError, AttributeError)
_MOST_COST = 2**63 - 1
_LONGEST_REASON = 300
COMPACT_FROM_FILES = 8
PART_BYTES = 1 << 25


class Shelf(StrEnum):
    """The three kinds of record a store keeps."""

    REPLIES = "replies"
    EMBEDDINGS = "embeddings"
    FAILURES = "failures"


def shelf_of(outcome: Outcome) -> Shelf:
    """Where an outcome is kept."""
    if isinstance(outcome, Failure):
        return Shelf.FAILURES
    return Shelf.EMBEDDINGS if outcome.vector else Shelf.REPLIES


def _table_of(shelf: Shelf, outcomes: Iterable[Any], epoch: int, mode: Mode) -> pa.Table:
    return (failures_to_table if shelf is Shelf.FAILURES else replies_to_table)(outcomes, epoch, mode)


def _outcomes_of(shelf: Shelf, table: pa.Table) -> Sequence[Outcome]:
    return failures_from_table(table) if shelf is Shelf.FAILURES else replies_from_table(table)


def _prefix(shelf: Shelf, model: str) -> str:
    return f"{shelf}/{folder_name(model)}"


class StoreWriter:
    """Collects outcomes and writes them, one file a model and shelf at each `flush`. `mode` is how they were asked."""

    def __init__(self, folder: Folder, epoch: int, writer: str, mode: Mode) -> None:
        self.folder = folder
        self._epoch, self._mode = epoch, mode
        self._stem, self._count = f"wal-{epoch:06d}-{writer}", 0
        self._waiting: dict[tuple[Shelf, str], list[Outcome]] = defaultdict(list)

    @property
    def waiting(self) -> int:
        """Outcomes added since the last flush began."""
        return sum(map(len, self._waiting.values()))

    def add(self, model: str, outcome: Outcome) -> None:
        """Queue a reply or a permanent failure of a model."""
        self._waiting[shelf_of(outcome), model].append(outcome)

    def take(self) -> Mapping[tuple[Shelf, str], list[Outcome]]:
        """What is waiting, which from now on is the caller's to `write`."""
        taken, self._waiting = self._waiting, defaultdict(list)
        return taken

    def take_back(self, taken: Mapping[tuple[Shelf, str], list[Outcome]]) -> None:
        """Queue again what could not be written; what was written all the same does no harm twice."""
        for place, outcomes in taken.items():
            self._waiting[place] = outcomes + self._waiting[place]

    def write(self, taken: Mapping[tuple[Shelf, str], list[Outcome]]) -> list[Failure]:
        """Put what was taken into the store; it is durable when this returns.

        An outcome that no file can hold does not take its neighbours down: it is replaced by a permanent failure,
        which is written and returned.
        """
        replaced: list[Failure] = []
        for (shelf, model), outcomes in taken.items():
            try:
                self._put(shelf, model, _table_of(shelf, outcomes, self._epoch, self._mode))
            except _UNSTORABLE:
                storable, failures = _sorted_out(shelf, outcomes)
                if storable:
                    self._put(shelf, model, _table_of(shelf, storable, self._epoch, self._mode))
                self._put(Shelf.FAILURES, model, failures_to_table(failures, self._epoch, self._mode))
                replaced += failures
        return replaced

    def _put(self, shelf: Shelf, model: str, table: pa.Table) -> None:
        self._count += 1
        self.folder.put_new(f"{_prefix(shelf, model)}/{self._stem}.{self._count:06d}.arrow", to_arrow(table))

    def flush(self) -> list[Failure]:
        """Write all that waits; see `write`."""
        return self.write(self.take())


def _sorted_out(shelf: Shelf, outcomes: Iterable[Outcome]) -> tuple[list[Outcome], list[Failure]]:
    """The outcomes that a file can hold, and failures in the place of the others."""
    storable: list[Outcome] = []
    failures: list[Failure] = []
    for outcome in outcomes:
        try:
            _table_of(shelf, [outcome], 0, Mode.ONLINE)
            storable.append(outcome)
        except _UNSTORABLE as error:
            failures.append(_unstorable(outcome, error))
    return storable, failures


def _unstorable(outcome: Outcome, error: Exception) -> Failure:
    """A failure in the place of an outcome; what that cost stays spent."""
    return Failure(
        key=outcome.key,
        kind=FailureKind.MALFORMED,
        permanent=True,
        attempts=1,
        message=f"the answer cannot be stored: {error}"[:_LONGEST_REASON],
        cost_nanousd=min(max(0, outcome.cost_nanousd), _MOST_COST),
    )


class _ModelIndex:
    """Which file holds which key, for one model on one shelf."""

    def __init__(self, folder: Folder, shelf: Shelf, model: str, accept: Callable[[str], bool]) -> None:
        self._folder, self._shelf, self._prefix, self._accept = folder, shelf, _prefix(shelf, model), accept
        self._seen: set[str] = set()
        self._files: list[str] = []
        self.keys = KeyIndex()

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
        return sorted(names, key=lambda name: name.endswith(".parquet"))

    def _take_in(self, name: str) -> None:
        keys = read_table(name, self._folder.get(name), ["key"]).column("key").to_pylist()
        self.keys.add(keys, len(self._files))
        self._files.append(name)
        self._seen.add(name)

    def read(self, keys: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of those keys that are here. A file that a compaction removed since is looked for anew."""
        while True:
            try:
                return self._read(keys)
            except FileNotFoundError:
                self._seen.clear()
                self.keys.clear()
                self.refresh()

    def _read(self, keys: Sequence[str]) -> dict[str, Outcome]:
        rows_of: dict[str, list[int]] = defaultdict(list)
        for place in self.keys.places(keys).values():
            rows_of[self._files[place.file]].append(place.row)
        found: dict[str, Outcome] = {}
        for file, rows in rows_of.items():
            table = read_table(file, self._folder.get(file)).take(rows)
            found.update((outcome.key, outcome) for outcome in _outcomes_of(self._shelf, table))
        return found


class Store:
    """Reads a store. With `failures_since` set, permanent failures of earlier epochs count as open calls."""

    def __init__(self, folder: Folder, failures_since: int = 0) -> None:
        self.folder = folder
        self._failures_since = failures_since
        self._indexes: dict[tuple[Shelf, str], _ModelIndex] = {}

    def _index(self, shelf: Shelf, model: str) -> _ModelIndex:
        if (shelf, model) not in self._indexes:
            self._indexes[shelf, model] = _ModelIndex(self.folder, shelf, model, self._accepts)
        return self._indexes[shelf, model]

    def _accepts(self, name: str) -> bool:
        if not name.startswith(Shelf.FAILURES):
            return True
        epoch = _EPOCH.search(name)
        return epoch is not None and int(epoch.group(1)) >= self._failures_since

    def refresh(self, model: str) -> None:
        """Take in what was written for a model since the last refresh."""
        for shelf in Shelf:
            self._index(shelf, model).refresh()

    def keys(self, model: str) -> set[str]:
        """The keys of a model that have a reply or a permanent failure, as of the last refresh."""
        return {key for shelf in Shelf for key in self._index(shelf, model).keys}

    def read(self, model: str, keys: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of these keys of a model, as of the last refresh; a reply goes before a failure."""
        found: dict[str, Outcome] = {}
        for shelf in (Shelf.FAILURES, Shelf.EMBEDDINGS, Shelf.REPLIES):
            found.update(self._index(shelf, model).read(keys))
        return found

    def compact(self, model: str, epoch: int) -> None:
        """Turn a model's many small files into few Parquet files a shelf; only the lease's holder does this."""
        for shelf in (Shelf.REPLIES, Shelf.EMBEDDINGS):
            names = [n for n in self.folder.list(_prefix(shelf, model)) if n.endswith(".arrow")]
            if len(names) >= COMPACT_FROM_FILES:
                for table, merged in self._merged(names):
                    self._compact(shelf, model, epoch, table, merged)

    def _merged(self, names: Iterable[str]) -> Iterator[tuple[pa.Table, list[str]]]:
        """Tables of about `PART_BYTES` each, with the files they were made of."""
        tables: dict[str, pa.Table] = {}
        size = 0
        for name in names:
            tables[name] = read_table(name, self.folder.get(name))
            size += tables[name].nbytes
            if size >= PART_BYTES:
                yield in_one(tables.values()), list(tables)
                tables, size = {}, 0
        if tables:
            yield in_one(tables.values()), list(tables)

    def _compact(self, shelf: Shelf, model: str, epoch: int, table: pa.Table, names: Sequence[str]) -> None:
        count = sum(n.endswith(".parquet") for n in self.folder.list(_prefix(shelf, model)))
        part = f"{_prefix(shelf, model)}/part-{epoch:06d}.{count:06d}.parquet"
        self.folder.put_new(part, to_parquet(table))
        self._index(shelf, model).refresh()
        for name in names:
            self.folder.delete(name)
