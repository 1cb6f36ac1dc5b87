"""Temporary files of a run: unpublished views and open calls.

    pending/<epoch>/<order>/<view>                a view as a worker wrote it
    pending/<epoch>/<order>/calls.parquet         the open calls of a settled shard
    pending/<epoch>/flow-<writer>-<n>.parquet     calls that follow from rows of an unfinished source

Workers write only here. The driver publishes a view by renaming it, once it knows that its order is the newest of the
shard. So a worker that outlives its driver or runs twice cannot replace a view. The holder of the store's lease removes
the files of dead epochs.

Calls to be sampled are in random order in their spools, so that merged spools of several shards are one shuffled list,
no matter when each was settled. See `executors.cells`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from heapq import merge
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hab_ray.calls import CallText, ChatCall, from_json, to_json
from hab_ray.catalog.models import Model
from hab_ray.catalog.prices import Mode, reserved_rate
from hab_ray.engine.jobs import Job
from hab_ray.executors.cells import Cells, ranks
from hab_ray.executors.protocol import Spool
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.replies.records import to_parquet
from hab_ray.storage.run import PENDING

INDEX = "index"
SHARD, ROW_ID, TASK, KEY, HEAD, REST, RANK = "shard", "row_id", "task", "key", "head", "rest", "rank"
SCHEMA = pa.schema(
    [
        (SHARD, pa.int64()),
        (ROW_ID, pa.string()),
        (TASK, pa.int64()),
        (KEY, pa.string()),
        (HEAD, pa.large_string()),
        (REST, pa.large_string()),
        (RANK, pa.binary()),
    ]
)
JOB_COLUMNS = (SHARD, ROW_ID, TASK, KEY, HEAD, REST)
GROUP_ROWS = 1024
BLOCK_ROWS = 256
MERGED_ROWS, MIN_MERGED_ROWS = 4096, 16
LINE_BYTES = 2048  # by which a vendor's line is typically longer than the call's text


@dataclass(frozen=True)
class Share:
    """The calls of one of several workers, chosen by key, so that one worker sends equal calls, and only once."""

    index: int = 0
    workers: int = 1

    def of(self, block: pa.Table) -> pa.Table:
        """Return this worker's rows of a table with the column `KEY`."""
        if self.workers == 1:
            return block
        return block.filter([int(key[:8], 16) % self.workers == self.index for key in block.column(KEY).to_pylist()])


ALL = Share()


@dataclass(frozen=True)
class Pending:
    """The pending files of one run and epoch. Picklable. With a `sample_seed`, calls are in random order."""

    run_path: Location
    epoch: int
    sample_seed: int | None = None

    @property
    def _folder(self) -> Folder:
        return open_folder(self.run_path)

    def folder_of(self, order: int) -> str:
        """Return the folder of an order, below which views have their usual names."""
        return f"{PENDING}/{self.epoch:06d}/{order:06d}/"

    def publish(self, order: int, view: str) -> None:
        """Replace the published view with the one written for this order."""
        self._folder.move(f"{self.folder_of(order)}{view}", view)

    def discard(self, order: int) -> None:
        """Remove all files of an order."""
        self._folder.clear(self.folder_of(order))

    def remove(self, spool: Spool) -> None:
        self._folder.delete(spool.file)

    def discard_all(self) -> None:
        """Remove the files of all orders and epochs. Requires the lease, and that no worker is running."""
        self._folder.clear(PENDING)

    def spool(self, order: int, stage: str, model: Model, jobs: Sequence[Job]) -> Spool:
        """Write the open calls of a settled shard, in the order in which they will be sent."""
        return self._write(f"{self.folder_of(order)}calls.parquet", stage, model, jobs)

    def spool_flow(self, writer: str, n: int, stage: str, model: Model, jobs: Sequence[Job]) -> Spool:
        """Write calls that follow from rows of a source; `writer` and `n` must identify the file in this epoch."""
        return self._write(f"{PENDING}/{self.epoch:06d}/flow-{writer}-{n:06d}.parquet", stage, model, jobs)

    def _write(self, file: str, stage: str, model: Model, jobs: Sequence[Job]) -> Spool:
        spool = Spool(file, stage, model.entry.provider, model.name, Counter(job.shard for job in jobs))
        texts = [to_json(job.call) for job in jobs]
        keys = [job.call.key for job in jobs]
        rows = [[job.shard for job in jobs], [job.row_id for job in jobs], [job.task for job in jobs]]
        halves = [[text.head for text in texts], [text.rest for text in texts]]
        table = pa.table([*rows, keys, *halves, [b""] * len(jobs)], schema=SCHEMA)
        if self.sample_seed is not None and model.entry.batch is not None:
            longest = LINE_BYTES + max((_escaped(text.head) + _escaped(text.rest) for text in texts), default=0)
            spool = replace(spool, line_bytes=longest, cap=_cap(model, jobs, longest))
            rank = ranks(self.sample_seed, self.epoch, Cells(self._folder, stage, model).populations())
            places = pa.array([rank(key) for key in keys], pa.binary())
            table = table.set_column(SCHEMA.get_field_index(RANK), RANK, places).take(pc.sort_indices(places))
        self._folder.put(file, _parquet(table))
        return spool

    def without(self, spool: Spool, keys: Set[str]) -> Spool | None:
        """Write the calls of a spool that have none of these keys to another one; return None if there are none."""
        unwanted = pa.array(list(keys), pa.string())
        blocks = self.blocks(spool, SCHEMA.names)
        table = pa.concat_tables([block.filter(pc.invert(pc.is_in(block.column(KEY), unwanted))) for block in blocks])
        if not len(table):
            return None
        rest = replace(spool, file=f"{spool.file}-rest", calls=Counter(table.column(SHARD).to_pylist()))
        self._folder.put(rest.file, _parquet(table))
        return rest

    def jobs(self, spools: Sequence[Spool], share: Share = ALL) -> Iterator[Job]:
        """Yield the calls of some spools, or a share of them."""
        for spool in spools:
            for block in self.blocks(spool, JOB_COLUMNS):
                yield from jobs_of(share.of(block))

    def keys(self, spool: Spool) -> list[str]:
        return self._column(spool, KEY)

    def row_ids(self, spool: Spool) -> list[str]:
        """Return the ids of a spool's rows."""
        return self._column(spool, ROW_ID)

    def _column(self, spool: Spool, name: str) -> list[str]:
        return [value for block in self.blocks(spool, (name,)) for value in block.column(name).to_pylist()]

    def blocks(self, spool: Spool, columns: Sequence[str], rows: int = BLOCK_ROWS) -> Iterator[pa.Table]:
        """Yield some columns of a spool, `rows` rows at a time."""
        file = pq.ParquetFile(pa.BufferReader(self._folder.get(spool.file)))
        shards = pa.array(list(spool.calls), pa.int64())
        for batch in file.iter_batches(batch_size=rows, columns=list({SHARD, *columns}), use_threads=False):
            block = pa.Table.from_batches([batch])
            yield block.filter(pc.is_in(block.column(SHARD), shards)).select(list(columns))


def _parquet(table: pa.Table) -> bytes:
    return to_parquet(table, row_group_size=GROUP_ROWS, use_dictionary=[HEAD])


def spooled(indices: pa.Table, pending: Pending, spools: Sequence[Spool], share: Share) -> Iterator[pa.Table]:
    """Yield a share of the calls of the spools at these indices, as tables with `JOB_COLUMNS`."""
    for index in indices.column(INDEX).to_pylist():
        for block in pending.blocks(spools[index], JOB_COLUMNS):
            yield share.of(block)


def jobs_of(block: pa.Table) -> Iterator[Job]:
    """Yield the calls in a table with `JOB_COLUMNS`."""
    columns = [block.column(name).to_pylist() for name in JOB_COLUMNS]
    for shard, row_id, task, key, *halves in zip(*columns, strict=True):
        yield Job(shard, row_id, from_json(CallText(*halves), key), task)


def sampled(pending: Pending, spools: Sequence[Spool]) -> Iterator[Job]:
    """Yield the calls of some spools in one random order; equal calls are adjacent.

    A block of each spool is in memory at a time, together about `MERGED_ROWS` calls.
    """
    rows = min(GROUP_ROWS, max(MIN_MERGED_ROWS, MERGED_ROWS // max(1, len(spools))))

    def in_blocks(spool: Spool) -> Iterator[tuple[bytes, Job]]:
        for block in pending.blocks(spool, (*JOB_COLUMNS, RANK), rows):
            yield from zip(block.column(RANK).to_pylist(), jobs_of(block), strict=True)

    return (job for _, job in merge(*map(in_blocks, spools), key=itemgetter(0)))


def sampled_keys(pending: Pending, spools: Sequence[Spool]) -> list[str]:
    """Return the keys of the calls that `sampled` yields, each once, without loading these calls."""
    places: dict[str, bytes] = {}
    for spool in spools:
        for block in pending.blocks(spool, (KEY, RANK), GROUP_ROWS):
            places.update(zip(block.column(KEY).to_pylist(), block.column(RANK).to_pylist(), strict=True))
    return sorted(places, key=places.__getitem__)


def _escaped(text: str) -> int:
    """Return at least the length of a text in which all characters beyond ASCII are escaped, as JSON may do."""
    if text.isascii():
        return len(text)
    return len(text) + 6 * (len(text.encode("utf-16-le")) // 2 - len(text.encode("ascii", "ignore")))


def _cap(model: Model, jobs: Sequence[Job], line_bytes: int) -> int:
    """Return the most that any of these calls can cost by batch: a token has at least one byte."""
    limits = {job.call.params.max_tokens for job in jobs if isinstance(job.call, ChatCall)}
    output = max(map(model.entry.output_limit, limits), default=0)
    return reserved_rate(model.entry, Mode.BATCH).bound(line_bytes, output)
