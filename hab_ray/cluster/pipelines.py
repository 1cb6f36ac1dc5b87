"""Ray Data pipelines: spools -> calls -> lane. One dataset for each dispatch.

Workers read and decompress the spooled calls of its shards; the lane takes them as a stream, so that a slow row holds
up nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import pyarrow as pa
import ray

from hab_ray.executors.pending import CALL, ROW_ID, Pending
from hab_ray.executors.protocol import Spool

SPOOLS_A_TASK = 8
MOST_TASKS = 16
SHARD = "shard"
SCHEMA = pa.schema([(SHARD, pa.int64()), (ROW_ID, pa.string()), (CALL, pa.string())])


@dataclass(frozen=True)
class Read:
    """Turns the numbers of shards into their spooled calls, on a worker."""

    pending: Pending
    spools: dict[int, Spool]

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        """The calls of each shard of a batch, in blocks of `SCHEMA`."""
        for number in batch.column(SHARD).to_pylist():
            for block in self.pending.blocks(self.spools[number], [ROW_ID, CALL]):
                columns = [pa.array([number] * block.num_rows, pa.int64()), *block.columns]
                yield pa.Table.from_arrays(columns, schema=SCHEMA)


def open_calls(pending: Pending, spools: Sequence[Spool]) -> ray.data.Dataset:
    """The calls of some spools in tables of `SCHEMA`; not begun before it is read."""
    tasks = min(MOST_TASKS, ceil(len(spools) / SPOOLS_A_TASK))
    numbers = ray.data.from_items([{SHARD: spool.number} for spool in spools], override_num_blocks=tasks)
    read = Read(pending, {spool.number: spool for spool in spools})
    return numbers.map_batches(read.__call__, batch_size=1, batch_format="pyarrow", num_cpus=0.8)
