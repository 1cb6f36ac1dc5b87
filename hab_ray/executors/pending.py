"""Files of a run under way: views that are not published yet, and open calls.

    pending/<epoch>/<order>/<view>                a view as a worker wrote it
    pending/<epoch>/<order>/calls.parquet         the open calls of the shard that was settled
    pending/<epoch>/flow-<writer>-<n>.parquet     calls that followed from rows of a source under way

Workers write here and nowhere else. The driver publishes a view by renaming it, once it knows that the order is the
newest one of its shard, so that a worker which outlives its driver or is run twice replaces nothing. The holder of the
store's lease removes what dead epochs left.

Calls that are to be sampled lie in their spools in a random order: merged, spools of several shards are one shuffled
list, whatever was settled when. See `executors.cells`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hab_ray.calls import Call, ChatCall, from_json, to_json
from hab_ray.catalog.models import Model
from hab_ray.catalog.prices import Mode, Price, rate
from hab_ray.engine.jobs import Job
from hab_ray.executors.cells import Cells, Population, ranks
from hab_ray.executors.protocol import Spool
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder

PENDING = "pending"
SHARD, ROW_ID, TASK, KEY, CALL, LINE, MOST = "shard", "row_id", "task", "key", "call", "line", "most"
SCHEMA = pa.schema(
    [
        (SHARD, pa.int64()),
        (ROW_ID, pa.string()),
        (TASK, pa.int64()),
        (KEY, pa.string()),
        (CALL, pa.string()),
        (LINE, pa.int64()),
        (MOST, pa.int64()),
    ]
)
JOB_COLUMNS = (SHARD, ROW_ID, TASK, KEY, CALL)
ROWS_A_GROUP = 1024
ROWS_A_BLOCK = 256
ROWS_A_MERGED_BLOCK = 32
LINE_BYTES = 2048  # that a vendor's line has more than the call as text, as a rule


@dataclass(frozen=True)
class Share:
    """The calls of one of several workers, by their keys: equal calls have one worker, which asks them once."""

    index: int = 0
    workers: int = 1

    def of(self, block: pa.Table) -> pa.Table:
        """Its rows of a table that has the column `KEY`."""
        if self.workers == 1:
            return block
        return block.filter([int(key[:8], 16) % self.workers == self.index for key in block.column(KEY).to_pylist()])


ALL = Share()


@dataclass(frozen=True)
class Pending:
    """The pending files of one run and epoch. Picklable. With a `sample_seed` calls lie in a random order."""

    run_path: Location
    epoch: int
    sample_seed: int | None = None

    @property
    def _folder(self) -> Folder:
        return open_folder(self.run_path)

    def ranks(self, stage: str, model: Model) -> Callable[[str], bytes]:
        """The places of a model's keys at a stage in the random order."""
        return ranks(self.sample_seed or 0, self.epoch, Cells(self._folder, stage, model).kept())

    def _prefix(self, order: int) -> str:
        return f"{PENDING}/{self.epoch:06d}/{order:06d}"

    def folder_of(self, order: int) -> str:
        """The folder in the run's that a worker writes to: views have their usual names below it."""
        return f"{self._prefix(order)}/"

    def publish(self, order: int, view: str) -> None:
        """Have a view that was written for this order replace the published one."""
        self._folder.move(f"{self._prefix(order)}/{view}", view)

    def discard(self, order: int) -> None:
        """Remove all files of an order."""
        self._folder.clear(self._prefix(order))

    def remove(self, spool: Spool) -> None:
        self._folder.delete(spool.file)

    def discard_all(self) -> None:
        """Remove the files of all orders and epochs; for the lease's holder, when nobody works for it."""
        self._folder.clear(PENDING)

    def spool(self, order: int, stage: str, model: Model, jobs: Sequence[Job]) -> Spool:
        """Keep the open calls of a shard that was settled, in the order in which they will be sent."""
        return self._write(f"{self._prefix(order)}/calls.parquet", stage, model, jobs)

    def spool_flow(self, writer: str, n: int, stage: str, model: Model, jobs: Sequence[Job]) -> Spool:
        """Keep calls that followed from rows of a source; `writer` and `n` make the name of the file."""
        return self._write(f"{PENDING}/{self.epoch:06d}/flow-{writer}-{n:06d}.parquet", stage, model, jobs)

    def _write(self, file: str, stage: str, model: Model, jobs: Sequence[Job]) -> Spool:
        is_sampled = self.sample_seed is not None and model.entry.batch is not None
        if is_sampled:
            rank = self.ranks(stage, model)
            jobs = sorted(jobs, key=lambda job: rank(job.call.key))
        texts = [to_json(job.call) for job in jobs]
        lines, most = [0] * len(jobs), [0] * len(jobs)
        if is_sampled:
            lines = list(map(_line_bytes, texts))
            price = rate(model.entry, Mode.BATCH)
            most = [_most(model, price, job.call, length) for job, length in zip(jobs, lines, strict=True)]
        columns = [
            [job.shard for job in jobs],
            [job.row_id for job in jobs],
            [job.task for job in jobs],
            [job.call.key for job in jobs],
            texts,
            lines,
            most,
        ]
        sink = pa.BufferOutputStream()
        table = pa.table(columns, schema=SCHEMA)
        pq.write_table(table, sink, row_group_size=ROWS_A_GROUP, compression="zstd", use_dictionary=False)
        self._folder.put(file, sink.getvalue().to_pybytes())
        return Spool(file, stage, model.entry.provider, model.name, Counter(job.shard for job in jobs))

    def jobs(self, spools: Sequence[Spool], share: Share = ALL) -> Iterator[Job]:
        """The calls of some spools, or a share of them."""
        for spool in spools:
            for block in self.blocks(spool, JOB_COLUMNS):
                yield from jobs_of(share.of(block))

    def keys(self, spool: Spool) -> list[str]:
        return [key for block in self.blocks(spool, (KEY,)) for key in block.column(KEY).to_pylist()]

    def row_ids(self, spool: Spool) -> list[str]:
        """The ids of a spool's rows."""
        return [row_id for block in self.blocks(spool, (ROW_ID,)) for row_id in block.column(ROW_ID).to_pylist()]

    def blocks(self, spool: Spool, columns: Sequence[str], rows: int = ROWS_A_BLOCK) -> Iterator[pa.Table]:
        """Some columns of a spool, so many rows at a time."""
        file = pq.ParquetFile(pa.BufferReader(self._folder.get(spool.file)))
        shards = pa.array(list(spool.calls), pa.int64())
        for batch in file.iter_batches(batch_size=rows, columns=list({SHARD, *columns}), use_threads=False):
            block = pa.Table.from_batches([batch])
            yield block.filter(pc.is_in(block.column(SHARD), shards)).select(list(columns))


def jobs_of(block: pa.Table) -> Iterator[Job]:
    """The calls of a table with `JOB_COLUMNS`."""
    columns = [block.column(name).to_pylist() for name in JOB_COLUMNS]
    for shard, row_id, task, key, call in zip(*columns, strict=True):
        yield Job(shard, row_id, from_json(call, key), task)


def sampled(pending: Pending, spools: Sequence[Spool], rank: Callable[[str], bytes]) -> Iterator[Job]:
    """The calls of some spools in one random order; equal calls follow each other."""

    def small_blocks(spool: Spool) -> Iterator[Job]:
        for block in pending.blocks(spool, JOB_COLUMNS, ROWS_A_MERGED_BLOCK):
            yield from jobs_of(block)

    return merge(*map(small_blocks, spools), key=lambda job: rank(job.call.key))


def population(pending: Pending, spools: Sequence[Spool], rank: Callable[[str], bytes]) -> Population:
    """The rows that `sampled` brings, without their calls."""
    keys: list[str] = []
    longest = cap = 0
    for spool in spools:
        for block in pending.blocks(spool, (KEY, LINE, MOST)):
            keys += block.column(KEY).to_pylist()
            longest = max(longest, pc.max(block.column(LINE)).as_py() or 0)
            cap = max(cap, pc.max(block.column(MOST)).as_py() or 0)
    return Population(sorted(set(keys), key=rank), longest, cap)


def _line_bytes(text: str) -> int:
    """How long a call's line is expected to be at most: what JSON escapes takes up to six bytes a character."""
    return LINE_BYTES + (len(text) if text.isascii() else 6 * len(text))


def _most(model: Model, price: Price, call: Call, length: int) -> int:
    """The most that a call can cost at a price with a line of this length: a token has at least one byte."""
    output = model.entry.output_limit(call.params.max_tokens) if isinstance(call, ChatCall) else 0
    return price.bound(length, output)
