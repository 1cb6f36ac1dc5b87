"""A batch that rows are packed for."""

from __future__ import annotations

from dataclasses import dataclass

from hab_ray.engine.batch.in_flight import BatchInFlight
from hab_ray.engine.batch.packing import Pack
from hab_ray.engine.batch.rows import RowsInFlight
from hab_ray.engine.batch.states import Packed
from hab_ray.engine.batch.waves import WaveUnderWay


@dataclass(frozen=True)
class Filling:
    """A batch that rows are packed for; `wave` is that which it is part of."""

    batch: BatchInFlight
    pack: Pack
    wave: WaveUnderWay | None

    @classmethod
    def of(cls, model: str, wave: WaveUnderWay | None = None) -> Filling:
        """A batch of a model, without rows yet."""
        pack = Pack()
        return cls(BatchInFlight(model, packed(pack)), pack, wave)

    def take_over(self, rows: RowsInFlight, batch: BatchInFlight, pack: Pack) -> None:
        """Take in packed rows of another batch."""
        rows.move(batch, pack, self.batch)
        for row in pack.rows:
            self.pack.add(row)


def packed(pack: Pack) -> Packed:
    """The state of a batch with these rows."""
    return Packed(len(pack.rows), pack.tokens, pack.nanousd)
