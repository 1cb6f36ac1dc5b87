"""Rows in flight: the driver's thread asks while the engine's thread opens and closes batches."""

from collections.abc import Iterator

from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.packing import PackedRow
from hab_ray.engine.batch.rows import BatchInFlight, RowsInFlight
from hab_ray.engine.batch.states import AtVendor, Polls
from hab_ray.engine.ledger import Batch
from hab_ray.storage.replies.keyindex import Keys, KeySet
from tests.engine.batch.fakes import KEYS, intent, submitted

SENT = Batch("acme", 1, (intent(), submitted()))


def batch() -> BatchInFlight:
    return BatchInFlight("m", AtVendor(SENT, "b-1", Polls(since=0.0, due=0.0)))


def packed_row(key: str) -> PackedRow:
    return PackedRow(7, "r", key, "/chat", None, False, "ef" * 32, b"{}", tokens=5, nanousd=9)


def test_a_batch_may_open_while_another_thread_asks() -> None:
    rows = RowsInFlight(BatchCounters())

    class Meanwhile(KeySet):
        def hits(self, wanted: Keys) -> list[int]:
            rows.open(batch(), SENT, KeySet(KEYS[:1]))
            return super().hits(wanted)

    rows.open(batch(), SENT, Meanwhile(KEYS[:1]))
    rows.open(batch(), SENT, KeySet(KEYS[:1]))
    assert not rows.held(KEYS[1:]) and len(rows.batches) == 3
    assert rows.held(KEYS[:1])


def test_calls_that_a_closed_batch_has_answered_are_still_held() -> None:
    """Their spool may be older than the answer: sent online, they would be paid for again."""
    rows, open_batch = RowsInFlight(BatchCounters()), batch()
    rows.open(open_batch, SENT, KeySet(KEYS))
    rows.mark_answered(KEYS[:1])
    rows.close(open_batch, unanswered=KEYS[1:])
    assert rows.held(KEYS) == {KEYS[0]}


def test_a_call_that_moves_on_while_another_thread_asks_is_not_missed() -> None:
    rows, open_batch, packing = RowsInFlight(BatchCounters()), batch(), BatchInFlight("m")

    class Meanwhile(KeySet):
        def hits(self, wanted: Keys) -> list[int]:
            rows.mark_answered(KEYS[:1])
            rows.close(open_batch)
            return []

    rows.open(open_batch, SENT, Meanwhile(KEYS[:1]))
    assert rows.held(KEYS[:1])

    class Leaving(list[PackedRow]):
        def __iter__(self) -> Iterator[PackedRow]:
            yield from super().__iter__()
            assert rows.held(KEYS[1:]), "the packed row is dropped before the batch is open"

    rows.pack(packed_row(KEYS[1]), packing)
    packing.pack.rows = Leaving(packing.pack.rows)
    rows.open(packing, SENT, KeySet(KEYS[1:]))


def test_of_rows_that_are_at_the_vendor_only_the_keys_are_kept() -> None:
    """A sweep of any size fits in memory: lines are dropped once the vendor has them."""
    rows, row = RowsInFlight(BatchCounters()), packed_row(KEYS[0])
    packing = BatchInFlight("m", later=BatchInFlight("m"))
    rows.pack(row, packing)
    assert rows.held(KEYS[:1]) and rows.join(row, {}) and packing.waiting == {7: 2}
    rows.open(packing, SENT, KeySet(KEYS[:1]))
    assert rows.held(KEYS[:1]) and not packing.pack.rows and packing.later is None
    rows.close(packing, unanswered=KEYS[:1])
    assert not rows.held(KEYS) and rows.sent(KEYS) == {KEYS[0]}


def test_rows_that_move_to_another_batch_are_waited_for_there() -> None:
    rows, whole = RowsInFlight(BatchCounters()), BatchInFlight("m")
    for key in KEYS:
        rows.pack(packed_row(key), whole)
    apart = rows.split(whole, [1])
    assert (whole.pack.keys(), apart.pack.keys()) == (KEYS[:1], KEYS[1:])
    rows.give_back(whole)
    assert (rows.held(KEYS), +apart.waiting) == ({KEYS[1]}, {7: 1})
