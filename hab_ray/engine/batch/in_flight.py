"""One batch in this process: its state, and the rows that wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hab_ray.engine.batch.collect import Results
from hab_ray.engine.batch.packing import PackedRow
from hab_ray.engine.batch.states import AtVendor, BatchState, Closed, Ended, Funded, Malformed, Packed, Requeued
from hab_ray.engine.ledger import Batch


@dataclass(eq=False)
class BatchInFlight:
    """A batch from its first packed row to its last result. `waiting` counts rows by shard.

    This run has set `nanousd` aside for it where it `is_own`, and pays for it. `results` is what was read of its
    results so far, None before the first line.
    """

    model: str
    state: BatchState
    waiting: Counter[int] = field(default_factory=Counter)
    is_own: bool = True
    nanousd: int = 0
    results: Results | None = None

    @property
    def record(self) -> Batch | None:
        """What the ledger has of it; None where that is nothing, or it is closed."""
        if isinstance(self.state, Packed | Funded | Requeued | Malformed | Closed):
            return None
        return self.state.record

    @property
    def is_ending(self) -> bool:
        """Whether it has ended at the vendor, or may have: an earlier process left it, and it was not asked for yet."""
        return isinstance(self.state, AtVendor | Ended) and self.state.polls.are_of_an_end

    def part(self, rows: Iterable[PackedRow]) -> BatchInFlight:
        """A new batch for some of its rows, which no longer wait here."""
        moved = Counter(row.shard for row in rows)
        self.waiting -= moved
        return BatchInFlight(self.model, self.state, moved)
