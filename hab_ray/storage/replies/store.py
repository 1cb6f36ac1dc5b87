"""The store: paid replies, embeddings and permanent failures by the keys of their calls.

    replies/<model>/wal-<epoch>-<writer>.<n>.arrow       outcomes of one flush, see `FlushPace`
    replies/<model>/part-<epoch>.<n>.<digest>.parquet    compacted outcomes, see `Store.compact`
    embeddings/<model>/...   failures/<model>/...        likewise
    sidecars/<file>                                      keys and costs of a part, see `sidecars`

Files are immutable. A key may be in several files after an interrupted compaction or a call repeated after a crash;
any of them will do.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hab_ray.calls import Call, Failure, Outcome
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
    kind_of,
    outcomes_of,
    prefix_of,
    read_listed,
    read_table,
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
    """An index of one model's records of one kind; with `since`, only of those written in that epoch or later."""

    def __init__(self, folder: Folder, reader: RowReader, kind: RecordKind, model: str, since: int | None) -> None:
        self._folder, self._reader, self._kind, self._since = folder, reader, kind, since
        self._prefix = prefix_of(kind, model)
        self._forget()

    def _forget(self) -> None:
        self._files: list[str] = []
        self._costs: list[NDArray[np.int64]] = []
        self.keys = KeyIndex()

    def refresh(self) -> None:
        """Index new files, retrying if a compaction removes one meanwhile."""
        read_listed(self._add_new_files)

    def _add_new_files(self) -> None:
        indexed = set(self._files)
        names = (name for name in self._folder.list(self._prefix) if name not in indexed and self._covers(name))
        for name in sorted(names, key=is_part):  # last, so that a part wins over its sources
            entries = entries_in(self._folder, name)
            self.keys.add_keys(entries.keys.in_file(len(self._files)))
            self._costs.append(entries.costs.copy())  # a view would keep the whole file in memory
            self._files.append(name)

    def _covers(self, name: str) -> bool:
        epoch = epoch_of(name)
        return self._since is None or (epoch is not None and epoch >= self._since)

    def read(self, keys: Sequence[str]) -> dict[str, Outcome]:
        """Return the outcomes of these keys, as far as there are any, retrying if a compaction removes a file."""
        while True:
            try:
                tables = self._tables(keys)
                return {outcome.key: outcome for table in tables for outcome in outcomes_of(self._kind, table)}
            except FileNotFoundError:
                self._forget()
                self.refresh()

    def costs(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the costs of these keys in nano-dollars, as far as they have outcomes."""
        return {key: self._costs[file].item(row) for key, (file, row) in self.keys.places(keys).items()}

    def _tables(self, keys: Sequence[str]) -> list[pa.Table]:
        rows_of: dict[str, list[int]] = defaultdict(list)
        for place in self.keys.places(keys).values():
            rows_of[self._files[place.file]].append(place.row)
        return [self._reader.read(file, sorted(rows_of[file])) for file in self._reader.kept_first(rows_of)]


def failed_keys(folder: Folder, model: str, keys: Sequence[str], since: int) -> set[str]:
    """Return those of a model's `keys` with a permanent failure of the epoch `since` or later; reads no replies."""
    index = ModelIndex(folder, RowReader(folder), RecordKind.FAILURES, model, since)
    index.refresh()
    return set(index.keys.places(keys))


@dataclass(frozen=True)
class FlushPace:
    """When to write outcomes: every `every_s` seconds, or as soon as `at` of them are waiting."""

    every_s: float
    at: int


ON_DISK = FlushPace(every_s=1.0, at=64)
REMOTE = FlushPace(every_s=1.5, at=4096)


class StoreWriter:
    """A buffered writer of outcomes, one file per model and kind at each `flush`. `mode` says how calls were sent."""

    def __init__(self, folder: Folder, epoch: int, writer: str, mode: Mode) -> None:
        self.folder = folder
        self._epoch, self._mode = epoch, mode
        self._stem, self._count = f"wal-{epoch:06d}-{writer}", 0
        self._waiting: dict[tuple[RecordKind, str], list[Outcome]] = defaultdict(list)

    @property
    def pace(self) -> FlushPace:
        """How often to `write`: less often if each request costs money."""
        return REMOTE if self.folder.is_remote else ON_DISK

    @property
    def waiting(self) -> int:
        """Number of outcomes added since the last flush began."""
        return sum(map(len, self._waiting.values()))

    @property
    def waiting_nanousd(self) -> int:
        """Cost of the outcomes added since the last flush began."""
        return sum(outcome.cost_nanousd for outcomes in self._waiting.values() for outcome in outcomes)

    def add(self, model: str, outcome: Outcome) -> None:
        """Queue a reply or a permanent failure of a model."""
        self._waiting[kind_of(outcome), model].append(outcome)

    def take(self) -> dict[tuple[RecordKind, str], list[Outcome]]:
        """Remove all waiting outcomes from the queue and return them for `write`."""
        taken, self._waiting = self._waiting, defaultdict(list)
        return taken

    def take_back(self, taken: Mapping[tuple[RecordKind, str], list[Outcome]]) -> None:
        """Queue what a failed `write` has left; writing some of it twice is harmless."""
        for file, outcomes in taken.items():
            self._waiting[file] = outcomes + self._waiting[file]

    def write(self, taken: dict[tuple[RecordKind, str], list[Outcome]]) -> list[Failure]:
        """Write outcomes to the store and remove them from `taken`; they are durable when this returns.

        Outcomes that cannot be stored are replaced by permanent failures, which are written and returned.
        """
        replaced: list[Failure] = []
        for (kind, model), outcomes in list(taken.items()):
            try:
                self._put(kind, model, outcomes)
                del taken[kind, model]
            except MemoryError:  # Arrow's, too
                raise
            except _UNSTORABLE:
                storable, failures = _split(kind, outcomes)
                if storable:
                    self._put(kind, model, storable)
                self._put(RecordKind.FAILURES, model, failures)
                replaced += failures
        return replaced

    def _put(self, kind: RecordKind, model: str, outcomes: Sequence[Outcome]) -> None:
        data = to_arrow(table_of(kind, outcomes, self._epoch, self._mode))
        self._count += 1
        self.folder.put_new(f"{prefix_of(kind, model)}/{self._stem}.{self._count:06d}.arrow", data)

    def flush(self) -> list[Failure]:
        return self.write(self.take())


def _split(kind: RecordKind, outcomes: Iterable[Outcome]) -> tuple[list[Outcome], list[Failure]]:
    """Return the outcomes that can be stored, and failures in place of the others."""
    storable: list[Outcome] = []
    failures: list[Failure] = []
    for outcome in outcomes:
        try:
            table_of(kind, [outcome], 0, Mode.ONLINE)
            storable.append(outcome)
        except MemoryError:
            raise
        except _UNSTORABLE as error:
            failure = Failure(
                key=outcome.key,
                kind=FailureKind.MALFORMED,
                attempts=1,
                message=f"the answer cannot be stored: {error}"[:_MAX_REASON],
                cost_nanousd=min(max(0, outcome.cost_nanousd), _MAX_COST),
            )
            failures.append(failure)
    return storable, failures


class Store:
    """A reader of the store. Permanent failures of epochs before `failures_since` count as open calls."""

    def __init__(self, folder: Folder, failures_since: int = 0) -> None:
        self.folder = folder
        self.failures_since = failures_since
        self._reader = RowReader(folder)
        self._indexes: dict[tuple[RecordKind, str], ModelIndex] = {}

    def _index(self, kind: RecordKind, model: str) -> ModelIndex:
        if (kind, model) not in self._indexes:
            since = self.failures_since if kind is RecordKind.FAILURES else None
            self._indexes[kind, model] = ModelIndex(self.folder, self._reader, kind, model, since)
        return self._indexes[kind, model]

    def refresh(self, model: str) -> None:
        """Index what was written for a model since the last refresh."""
        for kind in RecordKind:
            self._index(kind, model).refresh()

    def known(self, models: Iterable[str]) -> AnsweredKeys:
        """Refresh some models and return their keys that have a reply or a permanent failure."""
        runs: list[Keys] = []
        for model in models:
            self.refresh(model)
            for kind in RecordKind:
                runs += self._index(kind, model).keys.sorted_keys()
        return AnsweredKeys(runs)

    def read(self, model: str, keys: Sequence[str]) -> dict[str, Outcome]:
        """Return the outcomes of these keys as of the last refresh; a reply wins over a failure."""
        found = (self._index(kind, model).read(keys) for kind in _BETTER_LAST)
        return {key: outcome for outcomes in found for key, outcome in outcomes.items()}

    def outcomes(self, model: str, calls: Iterable[Call]) -> dict[str, Outcome]:
        """Return the outcomes of these calls by key; see `read`."""
        return self.read(model, [call.key for call in calls])

    def costs(self, model: str, keys: Sequence[str]) -> dict[str, int]:
        """Return the costs of these keys as of the last refresh; a reply wins over a failure."""
        found = (self._index(kind, model).costs(keys) for kind in _BETTER_LAST)
        return {key: cost for costs in found for key, cost in costs.items()}

    def failures(self, model: str, keys: Sequence[str]) -> dict[str, Failure]:
        """Return the permanent failures of these keys as of the last refresh."""
        found = self._index(RecordKind.FAILURES, model).read(keys)
        return {key: outcome for key, outcome in found.items() if isinstance(outcome, Failure)}

    def compact(self, model: str, epoch: int) -> None:
        """Merge a model's many small files into a few parts per kind. Requires the lease."""
        for kind in (RecordKind.REPLIES, RecordKind.EMBEDDINGS):
            files = self.folder.list(prefix_of(kind, model))
            small = [name for name in files if not is_part(name)]
            if len(small) >= COMPACT_FROM_FILES:
                self._compact(kind, model, f"part-{epoch:06d}", small, len(files) - len(small))

    def _compact(self, kind: RecordKind, model: str, stem: str, names: Sequence[str], number: int) -> None:
        """Merge files into parts of about `PART_BYTES`, numbered from `number` on.

        Each part goes in this order: write the sidecar, write the part, delete the merged files. A crash in between
        leaves each record in at least one file; a record in two files counts once.
        """
        tables: dict[str, pa.Table] = {}
        size = 0
        for name in names:
            tables[name] = read_table(name, self.folder.get(name))
            size += tables[name].nbytes
            if size < PART_BYTES and name != names[-1]:
                continue
            put_part(self.folder, f"{prefix_of(kind, model)}/{stem}.{number:06d}", in_one(tables.values()))
            if (kind, model) in self._indexes:
                self._indexes[kind, model].refresh()
            for merged in tables:
                self.folder.delete(merged)
            tables, size, number = {}, 0, number + 1
