"""Which rows are where: asked by the driver's thread while the engine's own opens and closes batches."""

from __future__ import annotations

from collections.abc import Sequence

from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.in_flight import BatchInFlight
from hab_ray.engine.batch.rows import RowsInFlight
from hab_ray.engine.batch.states import AtVendor, Polls
from hab_ray.engine.ledger import Batch
from hab_ray.storage.keyindex import KeySet
from tests.engine.batch.fakes import KEYS, intent, submitted

SENT = Batch("acme", 1, (intent(), submitted()))


def batch() -> BatchInFlight:
    return BatchInFlight("m", AtVendor(SENT, "b-1", Polls(since=0.0, due=0.0)))


def test_a_batch_may_open_while_another_thread_asks() -> None:
    rows = RowsInFlight(BatchCounters())

    class Meanwhile(KeySet):
        def common(self, keys: Sequence[str]) -> list[str]:
            rows.open(batch(), SENT, KeySet(KEYS[:1]))
            return super().common(keys)

    rows.open(batch(), SENT, Meanwhile(KEYS[:1]))
    rows.open(batch(), SENT, KeySet(KEYS[:1]))
    assert not rows.holds(KEYS[1:]) and len(rows.batches) == 3
    assert rows.holds(KEYS[:1])
