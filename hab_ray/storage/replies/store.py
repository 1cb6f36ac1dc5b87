"""The store: paid replies, embeddings and permanent failures, found again by their calls' keys.

    replies/<model>/wal-<epoch>-<writer>.<n>.arrow       what came in between two flushes, see `FlushPace`
    replies/<model>/part-<epoch>.<n>.<digest>.parquet    the same, compacted, see `Store.compact`
    embeddings/<model>/...   failures/<model>/...        likewise
    sidecars/<file>                                      keys and costs of a part, see `sidecars`

A file is written once and never changed. A key may stand in several files (a compaction that was interrupted,
a call repeated after a crash): any of them serves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hab_ray.calls import Failure, Outcome
from hab_ray.catalog.prices import Mode
from hab_ray.errors import FailureKind
from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.keyindex import AnsweredKeys, KeyIndex, Keys
from hab_ray.storage.replies.parts import RowReader
from hab_ray.storage.replies.records import (
    RecordKind,
    epoch_of,
    in_one,
    is_part,
    outcomes_of,
    prefix_of,
    read_table,
    shelf_of,
    table_of,
    to_arrow,
)
from hab_ray.storage.replies.sidecars import entries_in, put_part

COMPACT_FROM_FILES = 8
PART_BYTES = 1 << 25
_UNSTORABLE = (pa.ArrowException, ArithmeticError, TypeError, ValueError, AttributeError)
_BETTER_LAST = (RecordKind.FAILURES, RecordKind.EMBEDDINGS, RecordKind.REPLIES)
_MAX_COST = 2**63 - 1
_MAX_REASON = 300


class ModelIndex:
    """One model's records on one shelf, where `since` is given only those of the epochs from it on."""

    def __init__(self, folder: Folder, reader: RowReader, shelf: RecordKind, model: str, since: int | None) -> None:
        self._folder, self._reader, self._shelf, self._since = folder, reader, shelf, since
        self._prefix = prefix_of(shelf, model)
        self._forget()

    def _forget(self) -> None:
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
        seen = set(self._files)
        names = (name for name in self._folder.list(self._prefix) if name not in seen and self._accept(name))
        return sorted(names, key=is_part)

    def _accept(self, name: str) -> bool:
        epoch = epoch_of(name)
        return self._since is None or (epoch is not None and epoch >= self._since)

    def _take_in(self, name: str) -> None:
        self.keys.add_keys(entries_in(self._folder, name).keys.in_file(len(self._files)))
        self._files.append(name)

    def read(self, keys: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of those keys that are here."""
        tables = self._tables(keys)
        return {outcome.key: outcome for table in tables for outcome in outcomes_of(self._shelf, table)}

    def costs(self, keys: Sequence[str]) -> dict[str, int]:
        """What those keys that are here have cost."""
        columns = ([table.column(name).to_pylist() for name in ("key", "cost_nanousd")] for table in self._tables(keys))
        return {key: cost for names, costs in columns for key, cost in zip(names, costs, strict=True)}

    def _tables(self, keys: Sequence[str]) -> list[pa.Table]:
        """The rows of those keys. A file that a compaction removed since is looked for anew."""
        while True:
            rows_of: dict[str, list[int]] = defaultdict(list)
            for place in self.keys.places(keys).values():
                rows_of[self._files[place.file]].append(place.row)
            try:
                return [self._reader.read(file, sorted(rows_of[file])) for file in self._reader.kept_first(rows_of)]
            except FileNotFoundError:
                self._forget()
                self.refresh()


@dataclass(frozen=True)
class FlushPace:
    """When outcomes are written: so many seconds after the last time, or once so many wait."""

    every_s: float
    at: int


ON_DISK = FlushPace(every_s=1.0, at=64)
REMOTE = FlushPace(every_s=1.5, at=4096)


class StoreWriter:
    """Collects outcomes and writes them, one file a model and shelf at each `flush`. `mode` is how they were asked."""

    def __init__(self, folder: Folder, epoch: int, writer: str, mode: Mode) -> None:
        self.folder = folder
        self._epoch, self._mode = epoch, mode
        self._stem, self._count = f"wal-{epoch:06d}-{writer}", 0
        self._waiting: dict[tuple[RecordKind, str], list[Outcome]] = defaultdict(list)

    @property
    def pace(self) -> FlushPace:
        """How often to `write`: where each request is charged for, less often."""
        return REMOTE if self.folder.is_remote else ON_DISK

    @property
    def waiting(self) -> int:
        """Outcomes added since the last flush began."""
        return sum(map(len, self._waiting.values()))

    def add(self, model: str, outcome: Outcome) -> None:
        """Queue a reply or a permanent failure of a model."""
        self._waiting[shelf_of(outcome), model].append(outcome)

    def take(self) -> Mapping[tuple[RecordKind, str], list[Outcome]]:
        """What is waiting, which from now on is the caller's to `write`."""
        taken, self._waiting = self._waiting, defaultdict(list)
        return taken

    def take_back(self, taken: Mapping[tuple[RecordKind, str], list[Outcome]]) -> None:
        """Queue again what could not be written; what was written all the same does no harm twice."""
        for place, outcomes in taken.items():
            self._waiting[place] = outcomes + self._waiting[place]

    def write(self, taken: Mapping[tuple[RecordKind, str], list[Outcome]]) -> list[Failure]:
        """Put what was taken into the store; it is durable when this returns.

        An outcome that no file can hold does not take its neighbours down: it is replaced by a permanent failure,
        which is written and returned.
        """
        replaced: list[Failure] = []
        for (shelf, model), outcomes in taken.items():
            try:
                self._put(shelf, model, outcomes)
            except _UNSTORABLE:
                storable, failures = _sorted_out(shelf, outcomes)
                if storable:
                    self._put(shelf, model, storable)
                self._put(RecordKind.FAILURES, model, failures)
                replaced += failures
        return replaced

    def _put(self, shelf: RecordKind, model: str, outcomes: Sequence[Outcome]) -> None:
        data = to_arrow(table_of(shelf, outcomes, self._epoch, self._mode))
        self._count += 1
        self.folder.put_new(f"{prefix_of(shelf, model)}/{self._stem}.{self._count:06d}.arrow", data)

    def flush(self) -> list[Failure]:
        """Write all that waits; see `write`."""
        return self.write(self.take())


def _sorted_out(shelf: RecordKind, outcomes: Iterable[Outcome]) -> tuple[list[Outcome], list[Failure]]:
    """The outcomes that a file can hold, and failures in the place of the others."""
    storable: list[Outcome] = []
    failures: list[Failure] = []
    for outcome in outcomes:
        try:
            table_of(shelf, [outcome], 0, Mode.ONLINE)
            storable.append(outcome)
        except _UNSTORABLE as error:
            failures.append(_unstorable(outcome, error))
    return storable, failures


def _unstorable(outcome: Outcome, error: Exception) -> Failure:
    """A failure in the place of an outcome; what that cost stays spent."""
    return Failure(
        key=outcome.key,
        kind=FailureKind.MALFORMED,
        attempts=1,
        message=f"the answer cannot be stored: {error}"[:_MAX_REASON],
        cost_nanousd=min(max(0, outcome.cost_nanousd), _MAX_COST),
    )


class Store:
    """Reads a store. With `failures_since` set, permanent failures of earlier epochs count as open calls."""

    def __init__(self, folder: Folder, failures_since: int = 0) -> None:
        self.folder = folder
        self._failures_since = failures_since
        self._reader = RowReader(folder)
        self._indexes: dict[tuple[RecordKind, str], ModelIndex] = {}

    def _index(self, shelf: RecordKind, model: str) -> ModelIndex:
        if (shelf, model) not in self._indexes:
            since = self._failures_since if shelf is RecordKind.FAILURES else None
            self._indexes[shelf, model] = ModelIndex(self.folder, self._reader, shelf, model, since)
        return self._indexes[shelf, model]

    def refresh(self, model: str) -> None:
        """Take in what was written for a model since the last refresh."""
        for shelf in RecordKind:
            self._index(shelf, model).refresh()

    def known(self, models: Iterable[str]) -> AnsweredKeys:
        """The keys of some models that have a reply or a permanent failure by now."""
        runs: list[Keys] = []
        for model in models:
            self.refresh(model)
            for shelf in RecordKind:
                runs += self._index(shelf, model).keys.sorted_keys()
        return AnsweredKeys(runs)

    def read(self, model: str, keys: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of these keys of a model, as of the last refresh; a reply goes before a failure."""
        found: dict[str, Outcome] = {}
        for shelf in _BETTER_LAST:
            found.update(self._index(shelf, model).read(keys))
        return found

    def costs(self, model: str, keys: Sequence[str]) -> dict[str, int]:
        """What these keys of a model have cost, as of the last refresh; a reply goes before a failure."""
        found: dict[str, int] = {}
        for shelf in _BETTER_LAST:
            found.update(self._index(shelf, model).costs(keys))
        return found

    def failures(self, model: str, keys: Sequence[str]) -> dict[str, Failure]:
        """The permanent failures of these keys of a model, as of the last refresh."""
        found = self._index(RecordKind.FAILURES, model).read(keys)
        return {key: outcome for key, outcome in found.items() if isinstance(outcome, Failure)}

    def compact(self, model: str, epoch: int) -> None:
        """Turn a model's many small files into few parts a shelf; only the lease's holder does this."""
        for shelf in (RecordKind.REPLIES, RecordKind.EMBEDDINGS):
            files = self.folder.list(prefix_of(shelf, model))
            small = [name for name in files if not is_part(name)]
            if len(small) >= COMPACT_FROM_FILES:
                self._compact(shelf, model, f"part-{epoch:06d}", small, len(files) - len(small))

    def _compact(self, shelf: RecordKind, model: str, stem: str, names: Sequence[str], number: int) -> None:
        """Write parts of about `PART_BYTES`, the first of this number: sidecar, part, then remove what it was made of.

        A process that ends between any two of these leaves each record in at least one file, and one that stands in two
        counts once.
        """
        tables: dict[str, pa.Table] = {}
        size = 0
        for name in names:
            tables[name] = read_table(name, self.folder.get(name))
            size += tables[name].nbytes
            if size < PART_BYTES and name != names[-1]:
                continue
            put_part(self.folder, f"{prefix_of(shelf, model)}/{stem}.{number:06d}", in_one(tables.values()))
            if (shelf, model) in self._indexes:
                self._indexes[shelf, model].refresh()
            for merged in tables:
                self.folder.delete(merged)
            tables, size, number = {}, 0, number + 1
