"""Which rows of a provider account are on their way through its batch API, and who waits for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from hab_ray.engine.batch.in_flight import BatchCounters, Home
from hab_ray.engine.batch.packing import Pack, PackedRow
from hab_ray.engine.jobs import OpenKind, OpenRow
from hab_ray.engine.ledger import Batch
from hab_ray.errors import CallError, ProviderError, TransientError
from hab_ray.providers.batching import BatchRefused
from hab_ray.storage.keyindex import KeyIndex


class RowsInFlight:
    """Rows by key: in a pack, in an open batch, or answered. Keeps the tally of rows, batches and stopped models.

    A row whose key is already in a pack or a batch waits there too, so that no call is sent twice. `give_up_batches` is
    called when the open batches are waited for no longer.
    """

    def __init__(self, tally: BatchCounters, give_up_batches: Callable[[], None]) -> None:
        self._tally, self._give_up_batches = tally, give_up_batches
        self._packs: dict[str, Home] = {}
        self._open: dict[Home, Batch] = {}
        self._answered = KeyIndex()

    @property
    def batches(self) -> Sequence[tuple[Home, Batch]]:
        """The open batches, in the order in which they were opened."""
        return tuple(self._open.items())

    def known(self, keys: Sequence[str]) -> dict[str, Home | None]:
        """Those of these keys that are in an open batch, with it, or answered."""
        known: dict[str, Home | None] = dict.fromkeys(self._answered.places(keys))
        for home in self._open:
            known.update(dict.fromkeys(home.keys.common(keys) if home.keys else (), home))
        return known

    def holds(self, keys: Iterable[str]) -> bool:
        """Whether one of these calls is in an open batch, or on its way into one."""
        asked = list(keys)
        in_packs = any(key in self._packs for key in asked)
        return in_packs or any(home.keys.common(asked) for home in self._open if home.keys)

    def joins(self, row: PackedRow, known: Mapping[str, Home | None]) -> bool:
        """Whether an offered row needs no place in a batch of its own: its key is answered, or it waits for it."""
        home = self._packs.get(row.key) or known.get(row.key)
        if home is not None:
            home.waiting[row.shard] += 1
        elif row.key in known:
            self._tally.finished[row.shard] += 1
        else:
            return False
        return True

    def pack(self, row: PackedRow, home: Home) -> None:
        """Note that a row is in a pack."""
        home.waiting[row.shard] += 1
        self._packs[row.key] = home

    def part(self, home: Home, pack: Pack) -> Home:
        """Give some rows of a pack a home of their own."""
        moved = home.part(pack.rows)
        self._packs.update(dict.fromkeys(pack.keys(), moved))
        return moved

    def unpack(self, home: Home) -> None:
        """Note that the rows of a home are in no pack any more."""
        for key in [key for key, place in self._packs.items() if place is home]:
            del self._packs[key]

    def give_back(self, home: Home) -> None:
        """Return rows that are in no batch, or whose batch is no longer waited for, to whoever offered them."""
        self._tally.finished.update(home.waiting)
        home.waiting.clear()
        self.unpack(home)

    def leave_open(self, home: Home, row: PackedRow, kind: OpenKind, reason: str) -> None:
        """Name a packed row as one that this run sends to nobody."""
        self._tally.open.append(OpenRow(row.shard, row.row_id, reason, kind))
        home.waiting[row.shard] -= 1
        del self._packs[row.key]

    def answer(self, keys: Collection[str]) -> None:
        """Note that these keys have an outcome in the store."""
        self._answered.add(sorted(keys), 0)

    def open(self, home: Home, batch: Batch) -> None:
        """Note that the rows of a home are in a batch at the vendor, or in one that may be there."""
        self._open[home] = batch
        self._tally.in_flight[home.model] += batch.intent.rows

    def close(self, home: Home) -> None:
        """Note that a batch brings nothing more: its rows are finished, answered or not."""
        batch = self._open.pop(home)
        self._tally.in_flight[home.model] -= batch.intent.rows
        self._tally.finished.update(home.waiting)

    def enqueued(self, model: str) -> int:
        """The estimated input tokens of a model's open batches."""
        return sum(batch.intent.tokens for home, batch in self._open.items() if home.model == model)

    def heed(self, model: str, error: CallError) -> None:
        """Stop what an error concerns that is no single row's: a model's batches, the model, or its provider."""
        if isinstance(error, BatchRefused):
            self._tally.refuse(model, error)
        elif isinstance(error, ProviderError):
            self.stop_provider(str(error))
        else:
            self._tally.stops.setdefault(model, str(error))

    def leave_in_doubt(self, error: TransientError) -> None:
        """Stop the provider because it is not known whether the vendor made a batch."""
        self.stop_provider(f"{error}; its batches are looked for when the same command is given again")

    def stop_provider(self, reason: str) -> None:
        """Send nothing more to any model of the provider, and wait for none of its batches."""
        self._tally.stops.setdefault("", reason)
        self._give_up_batches()
        for home in self._open:
            self.give_back(home)
