"""Tracks each row of a provider account: in a batch being packed, in an open batch, or answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hab_ray.engine.batch.collect import Results
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.packing import Pack, PackedRow
from hab_ray.engine.batch.states import AtVendor, BatchState, Closed, Ended, Funded, Malformed, Packed
from hab_ray.engine.jobs import OpenKind, OpenRow
from hab_ray.engine.ledger import Batch, Intent, Lines
from hab_ray.storage.replies.keyindex import KeyIndex, Keys, KeySet

EMPTY = Packed(0, 0, 0)


@dataclass(frozen=True)
class Request:
    """The lines of a batch and its intent; owner, fingerprint, newest batch, epoch and time follow when it is sent."""

    lines: Lines
    intent: Intent


@dataclass
class WaveUnderWay:
    """A wave being sent: `nanousd` of its reservation is not in a batch yet."""

    nanousd: int

    def fund(self, pack: Pack) -> bool:
        """Fund a pack from the wave's reservation if that suffices; return whether it did."""
        if pack.bound is None or pack.nanousd > self.nanousd:
            return False
        self.nanousd -= pack.nanousd
        return True


@dataclass(eq=False)
class BatchInFlight:
    """A batch from its first packed row to its last result. `waiting` counts the rows that wait for it, by shard.

    Until the vendor has it, `pack` holds its rows, `request` is what to send, `wave` is the wave it belongs to, and
    `later` takes rows that there is no money for yet. If it `is_own`, this run pays for it and has reserved `nanousd`.
    `results` holds the results read so far, None before the first line.
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
        """Its record in the ledger; None before it has one, and once it is closed."""
        return None if isinstance(self.state, Packed | Funded | Malformed | Closed) else self.state.record

    @property
    def is_ending(self) -> bool:
        """Whether it has ended at the vendor, or may have: an earlier process left it, and it was not polled yet."""
        return isinstance(self.state, AtVendor | Ended) and self.state.polls.show_end

    def packed(self, refusal: str | None = None) -> Packed:
        """Return its state while it is being packed; `refusal` is why the budget cannot pay for all of its rows."""
        return Packed(len(self.pack.rows), self.pack.tokens, self.pack.nanousd, refusal)


class RowsInFlight:
    """Rows by key, and the batches that hold them.

    A row whose key is already in a batch waits for that batch, so that no call is sent twice.
    """

    def __init__(self, counters: BatchCounters) -> None:
        self._counters = counters
        self._packed: dict[str, BatchInFlight] = {}
        self._open: dict[BatchInFlight, tuple[KeySet, Intent]] = {}
        self._answered = KeyIndex()
        self._unanswered: list[KeySet] = []

    @property
    def batches(self) -> Sequence[BatchInFlight]:
        """The open batches, oldest first."""
        return tuple(self._open)

    def find(self, keys: Sequence[str]) -> dict[str, BatchInFlight | None]:
        """Return those of these keys that are in an open batch, with the batch, or answered, with None."""
        wanted = Keys.of(keys)
        found: dict[str, BatchInFlight | None] = dict.fromkeys(keys[i] for i in self._answered.hits(wanted))
        for batch, (sent, _) in self._open.items():
            found.update(dict.fromkeys((keys[i] for i in sent.hits(wanted)), batch))
        return found

    def sent(self, keys: Sequence[str]) -> set[str]:
        """Return those of these keys that are or were in a batch."""
        wanted = Keys.of(keys)
        return {*self.find(keys), *(keys[i] for batch in self._unanswered for i in batch.hits(wanted))}

    def held(self, keys: Sequence[str]) -> set[str]:
        """Return those of these keys that are in a batch, open or being packed, or answered by one.

        Thread-safe: it looks in the order in which a call moves, and a call is in the next place before it leaves one.
        """
        wanted, found = Keys.of(keys), {key for key in keys if key in self._packed}
        for batch in (*(sent for sent, _ in list(self._open.values())), self._answered):
            found.update(keys[i] for i in batch.hits(wanted))
        return found

    def join(self, row: PackedRow, found: Mapping[str, BatchInFlight | None]) -> bool:
        """Let an offered row wait for the batch that has its key, or finish it if its key is answered.

        A stopped provider's batches are waited for no more. `found` is the result of `find`. Return False if the row
        must be packed.
        """
        batch = self._packed.get(row.key) or found.get(row.key)
        if batch is None and row.key not in found:
            return False
        if batch is not None and "" not in self._counters.stops:
            batch.waiting[row.shard] += 1
        else:
            self._counters.finished[row.shard] += 1
        return True

    def pack(self, row: PackedRow, batch: BatchInFlight) -> None:
        """Add a row to a batch being packed."""
        batch.pack.add(row)
        batch.waiting[row.shard] += 1
        self._packed[row.key] = batch

    def split(self, batch: BatchInFlight, numbers: Collection[int]) -> BatchInFlight:
        """Move the numbered rows of a packed batch, or half of all rows, into a new batch."""
        batch.pack, apart = batch.pack.split(numbers)
        other = BatchInFlight(batch.model, wave=batch.wave, later=batch.later)
        batch.waiting.subtract(row.shard for row in apart.rows)
        for row in apart.rows:
            self.pack(row, other)
        return other

    def fit(self, batch: BatchInFlight, nanousd: int, reason: str, later: BatchInFlight) -> None:
        """Keep packed rows that together cost at most this much, and move the others to `later`.

        A row that costs more on its own is left open.
        """
        too_expensive, rest = batch.pack.fit(nanousd)
        for row in too_expensive:
            self._counters.open.append(OpenRow(row.shard, row.row_id, reason, OpenKind.BUDGET))
            batch.waiting[row.shard] -= 1
            del self._packed[row.key]
        batch.waiting.subtract(row.shard for row in rest.rows)
        for row in rest.rows:
            self.pack(row, later)

    def give_back(self, batch: BatchInFlight) -> None:
        """Return the rows of a batch to the caller: they are in no batch, or nobody waits for their batch any more."""
        self._counters.finished.update(batch.waiting)
        batch.waiting.clear()
        self._unpack(batch)

    def mark_answered(self, keys: Collection[str]) -> None:
        """Record that these keys have an outcome in the store."""
        self._answered.add(keys)

    def open(self, batch: BatchInFlight, record: Batch, keys: KeySet) -> None:
        """Record that these rows are in a batch that is or may be at the vendor."""
        self._open[batch] = keys, record.intent
        self._unpack(batch)
        self._counters.in_flight[batch.model] += record.intent.rows

    def close(self, batch: BatchInFlight, unanswered: Collection[str] = ()) -> None:
        """Record that an open batch is done: its rows are finished, answered or not."""
        _, intent = self._open.pop(batch)
        self._counters.in_flight[batch.model] -= intent.rows
        self._counters.finished.update(batch.waiting)
        if unanswered:
            self._unanswered.append(KeySet(unanswered))

    def enqueued(self, model: str) -> int:
        """Return the estimated input tokens of a model's open batches."""
        return sum(intent.tokens for batch, (_, intent) in self._open.items() if batch.model == model)

    def _unpack(self, batch: BatchInFlight) -> None:
        """Drop the packed rows of a batch, which take much memory."""
        for row in batch.pack.rows:
            if self._packed.get(row.key) is batch:
                del self._packed[row.key]
        batch.pack, batch.later = Pack(), None
