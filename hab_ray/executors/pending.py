"""Files of a run under way: views that are not published yet, and the open calls of shards.

    pending/<epoch>/<order>/<view>               a view as a worker wrote it
    pending/<epoch>/<order>/calls-<n>.parquet    the open calls of shard n

Workers write here and nowhere else. The driver publishes a view by renaming it, once it knows that the order is the
newest one of its shard, so that a worker which outlives its driver or is run twice replaces nothing. The holder of the
store's lease removes what dead epochs left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.calls import Call, from_json, to_json
from hab_ray.engine.jobs import Job
from hab_ray.executors.protocol import Settle, Spool
from hab_ray.storage.folder import Folder, open_folder

PENDING = "pending"
ROW_ID, KEY, CALL = "row_id", "key", "call"
SCHEMA = pa.schema([(ROW_ID, pa.string()), (KEY, pa.string()), (CALL, pa.string())])
ROWS_A_GROUP = 1024
ROWS_A_BLOCK = 256


@dataclass(frozen=True)
class Pending:
    """The pending files of one run and epoch. Picklable."""

    run_path: Path
    epoch: int

    @property
    def _folder(self) -> Folder:
        return open_folder(self.run_path)

    def _prefix(self, order: int) -> str:
        return f"{PENDING}/{self.epoch:06d}/{order:06d}"

    def place(self, order: int) -> Path:
        """The run folder that a worker writes to: views have their usual names below it."""
        return self.run_path / self._prefix(order)

    def publish(self, order: int, view: str) -> None:
        """Have a view that was written for this order replace the published one."""
        self._folder.move(f"{self._prefix(order)}/{view}", view)

    def discard(self, order: int) -> None:
        """Remove all files of an order."""
        self._folder.clear(self._prefix(order))

    def discard_all(self) -> None:
        """Remove the files of all orders and epochs; for the lease's holder, when nobody works for it."""
        self._folder.clear(PENDING)

    def spool(self, settle: Settle, calls: Sequence[tuple[str, Call]]) -> Spool:
        """Keep the open calls of a shard, in the order in which they will be sent."""
        columns = [[row_id for row_id, _ in calls], [c.key for _, c in calls], [to_json(c) for _, c in calls]]
        sink = pa.BufferOutputStream()
        table = pa.table(columns, schema=SCHEMA)
        pq.write_table(table, sink, row_group_size=ROWS_A_GROUP, compression="zstd", use_dictionary=False)
        file = f"{self._prefix(settle.order)}/calls-{settle.number}.parquet"
        self._folder.put(file, sink.getvalue().to_pybytes())
        return Spool(settle.order, settle.number, settle.shard, file, len(calls))

    def jobs(self, spools: Sequence[Spool]) -> Iterator[Job]:
        """The calls of some spools."""
        for spool in spools:
            for block in self.blocks(spool, [ROW_ID, CALL]):
                for row_id, call in zip(*(column.to_pylist() for column in block.columns), strict=True):
                    yield Job(spool.number, row_id, from_json(call))

    def keys(self, spool: Spool) -> list[str]:
        """The keys of a spool's calls."""
        return [key for block in self.blocks(spool, [KEY]) for key in block.column(0).to_pylist()]

    def row_ids(self, spool: Spool) -> list[str]:
        """The ids of a spool's rows."""
        return [row_id for block in self.blocks(spool, [ROW_ID]) for row_id in block.column(0).to_pylist()]

    def blocks(self, spool: Spool, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of a spool, a few hundred rows at a time."""
        file = pq.ParquetFile(pa.BufferReader(self._folder.get(spool.file)))
        yield from file.iter_batches(batch_size=ROWS_A_BLOCK, columns=list(columns))
