"""Which rows of a provider account are in a pack or a batch, and which shards wait for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.in_flight import BatchInFlight
from hab_ray.engine.batch.packing import Pack, PackedRow
from hab_ray.engine.jobs import OpenKind, OpenRow
from hab_ray.engine.ledger import Batch, Intent
from hab_ray.storage.keyindex import KeyIndex, KeySet


@dataclass(frozen=True)
class _Opened:
    keys: KeySet
    intent: Intent


class RowsInFlight:
    """Rows by key: in a pack, in an open batch, or answered. Counts rows and batches.

    A row whose key is already in a pack or a batch waits for that one, so that no call is sent twice.
    """

    def __init__(self, counters: BatchCounters) -> None:
        self._counters = counters
        self._packed: dict[str, BatchInFlight] = {}
        self._open: dict[BatchInFlight, _Opened] = {}
        self._answered = KeyIndex()

    @property
    def batches(self) -> Sequence[BatchInFlight]:
        """The open batches, in the order in which they were opened."""
        return tuple(self._open)

    def known(self, keys: Sequence[str]) -> dict[str, BatchInFlight | None]:
        """Those of these keys that are in an open batch, with it, or answered."""
        known: dict[str, BatchInFlight | None] = dict.fromkeys(self._answered.places(keys))
        for batch, opened in self._open.items():
            known.update(dict.fromkeys(opened.keys.common(keys), batch))
        return known

    def holds(self, keys: Iterable[str]) -> bool:
        """Whether one of these calls is in an open batch, or on its way into one. For any thread."""
        asked, opened = list(keys), list(self._open.values())
        return any(key in self._packed for key in asked) or any(one.keys.common(asked) for one in opened)

    def joins(self, row: PackedRow, known: Mapping[str, BatchInFlight | None]) -> bool:
        """Whether an offered row needs no place in a batch of its own: its key is answered, or it waits for it."""
        batch = self._packed.get(row.key) or known.get(row.key)
        if batch is not None:
            batch.waiting[row.shard] += 1
        elif row.key in known:
            self._counters.finished[row.shard] += 1
        else:
            return False
        return True

    def pack(self, row: PackedRow, batch: BatchInFlight) -> None:
        """Note that a row is in a pack."""
        batch.waiting[row.shard] += 1
        self._packed[row.key] = batch

    def part(self, batch: BatchInFlight, pack: Pack) -> BatchInFlight:
        """Move some packed rows of a batch into one of their own."""
        moved = batch.part(pack.rows)
        self._packed.update(dict.fromkeys(pack.keys(), moved))
        return moved

    def move(self, batch: BatchInFlight, pack: Pack, other: BatchInFlight) -> None:
        """Move some packed rows of a batch into another one."""
        other.waiting += batch.part(pack.rows).waiting
        self._packed.update(dict.fromkeys(pack.keys(), other))

    def give_back(self, batch: BatchInFlight) -> None:
        """Return to the caller rows that are in no batch, or whose batch is no longer waited for."""
        self._counters.finished.update(batch.waiting)
        batch.waiting.clear()
        self._unpack(batch)

    def leave_open(self, batch: BatchInFlight, row: PackedRow, kind: OpenKind, reason: str) -> None:
        """Name a packed row as one that this run sends to nobody."""
        self._counters.open.append(OpenRow(row.shard, row.row_id, reason, kind))
        batch.waiting[row.shard] -= 1
        del self._packed[row.key]

    def answer(self, keys: Collection[str]) -> None:
        """Note that these keys have an outcome in the store."""
        self._answered.add(sorted(keys), 0)

    def open(self, batch: BatchInFlight, record: Batch, keys: KeySet) -> None:
        """Note that these rows are in a batch at the vendor, or in one that may be there."""
        self._unpack(batch)
        self._open[batch] = _Opened(keys, record.intent)
        self._counters.in_flight[batch.model] += record.intent.rows

    def close(self, batch: BatchInFlight) -> None:
        """Note that an open batch brings nothing more: its rows are finished, answered or not."""
        self._counters.in_flight[batch.model] -= self._open.pop(batch).intent.rows
        self._counters.finished.update(batch.waiting)

    def enqueued(self, model: str) -> int:
        """The estimated input tokens of a model's open batches."""
        return sum(opened.intent.tokens for batch, opened in self._open.items() if batch.model == model)

    def _unpack(self, batch: BatchInFlight) -> None:
        for key in [key for key, place in self._packed.items() if place is batch]:
            del self._packed[key]
