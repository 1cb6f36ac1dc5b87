"""Where each row of a provider account is: in a batch that is being packed, in an open one, or answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hab_ray.engine.batch.collect import Results
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.packing import Pack, PackedRow
from hab_ray.engine.batch.states import AtVendor, BatchState, Closed, Ended, Funded, Malformed, Packed
from hab_ray.engine.jobs import OpenKind, OpenRow
from hab_ray.engine.ledger import Batch, Intent, Lines
from hab_ray.storage.replies.keyindex import KeyIndex, KeySet

EMPTY = Packed(0, 0, 0)


@dataclass(frozen=True)
class Request:
    """What is sent, and the intent of it, to which owner, newest batch, epoch and time are added when it is sent."""

    lines: Lines
    intent: Intent


@dataclass
class WaveUnderWay:
    """A wave that is being sent: `nanousd` of what was set aside for it is not in a batch yet."""

    nanousd: int

    def has_funded(self, pack: Pack) -> bool:
        """Take what a pack reserves out of what is set aside in advance, if that is enough."""
        if pack.bound is None or pack.nanousd > self.nanousd:
            return False
        self.nanousd -= pack.nanousd
        return True


@dataclass(eq=False)
class BatchInFlight:
    """A batch from its first packed row to its last result. `waiting` counts by shard who waits for its rows.

    Until the vendor has it, `pack` holds its rows, `request` is what is sent, `wave` that which it is part of, and
    `later` takes the rows for which there is no money yet. This run has set `nanousd` aside for it where it `is_own`,
    and pays for it. `results` is what was read of its results so far, None before the first line.
    """

    model: str
    state: BatchState = EMPTY
    pack: Pack = field(default_factory=Pack)
    wave: WaveUnderWay | None = None
    later: BatchInFlight | None = None
    request: Request | None = None
    waiting: Counter[int] = field(default_factory=Counter)
    is_own: bool = True
    nanousd: int = 0
    results: Results | None = None

    @property
    def record(self) -> Batch | None:
        """What the ledger has of it; None where that is nothing, or it is closed."""
        return None if isinstance(self.state, Packed | Funded | Malformed | Closed) else self.state.record

    @property
    def is_ending(self) -> bool:
        """Whether it has ended at the vendor, or may have: an earlier process left it, and it was not asked for yet."""
        return isinstance(self.state, AtVendor | Ended) and self.state.polls.are_of_an_end

    def packed(self, refusal: str | None = None) -> Packed:
        """Its state as long as it is being packed; `refusal` says why the budget cannot pay for all of its rows."""
        return Packed(len(self.pack.rows), self.pack.tokens, self.pack.nanousd, refusal)


@dataclass(frozen=True)
class _Opened:
    keys: KeySet
    intent: Intent


class RowsInFlight:
    """Rows by key, and the batches that hold them. Counts rows and batches.

    A row whose key is already in a batch waits for that one, so that no call is sent twice.
    """

    def __init__(self, counters: BatchCounters) -> None:
        self._counters = counters
        self._packed: dict[str, BatchInFlight] = {}
        self._open: dict[BatchInFlight, _Opened] = {}
        self._answered = KeyIndex()
        self._unanswered: list[KeySet] = []

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

    def sent(self, keys: Sequence[str]) -> set[str]:
        """Those of these keys that were in a batch before, or are in an open one."""
        return {*self.known(keys), *(key for batch in self._unanswered for key in batch.common(keys))}

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
        """Put a row into a batch that is being packed."""
        batch.pack.add(row)
        batch.waiting[row.shard] += 1
        self._packed[row.key] = batch

    def part(self, batch: BatchInFlight, named: Collection[int]) -> BatchInFlight:
        """Move packed rows of a batch into one of their own: those of these numbers, else half of them."""
        batch.pack, apart = batch.pack.parted(named)
        other = BatchInFlight(batch.model, wave=batch.wave, later=batch.later)
        batch.waiting.subtract(row.shard for row in apart.rows)
        for row in apart.rows:
            self.pack(row, other)
        return other

    def fit(self, batch: BatchInFlight, nanousd: int, reason: str, later: BatchInFlight) -> None:
        """Keep packed rows that together cost no more than this; one that alone costs more is open, others go later."""
        dear, rest = batch.pack.fit(nanousd)
        for row in dear:
            self._counters.open.append(OpenRow(row.shard, row.row_id, reason, OpenKind.BUDGET))
            batch.waiting[row.shard] -= 1
            del self._packed[row.key]
        batch.waiting.subtract(row.shard for row in rest.rows)
        for row in rest.rows:
            self.pack(row, later)

    def give_back(self, batch: BatchInFlight) -> None:
        """Return to the caller rows that are in no batch, or whose batch is no longer waited for."""
        self._counters.finished.update(batch.waiting)
        batch.waiting.clear()
        self._unpack(batch)

    def answer(self, keys: Collection[str]) -> None:
        """Note that these keys have an outcome in the store."""
        self._answered.add(keys)

    def open(self, batch: BatchInFlight, record: Batch, keys: KeySet) -> None:
        """Note that these rows are in a batch at the vendor, or in one that may be there."""
        self._unpack(batch)
        self._open[batch] = _Opened(keys, record.intent)
        self._counters.in_flight[batch.model] += record.intent.rows

    def close(self, batch: BatchInFlight, unanswered: Collection[str] = ()) -> None:
        """Note that an open batch brings nothing more: its rows are finished, answered or not."""
        self._counters.in_flight[batch.model] -= self._open.pop(batch).intent.rows
        self._counters.finished.update(batch.waiting)
        if unanswered:
            self._unanswered.append(KeySet(unanswered))

    def enqueued(self, model: str) -> int:
        """The estimated input tokens of a model's open batches."""
        return sum(opened.intent.tokens for batch, opened in self._open.items() if batch.model == model)

    def _unpack(self, batch: BatchInFlight) -> None:
        """Forget what only a batch that is being packed has: its rows alone may fill the memory."""
        for row in batch.pack.rows:
            if self._packed.get(row.key) is batch:
                del self._packed[row.key]
        batch.pack, batch.later = Pack(), None
