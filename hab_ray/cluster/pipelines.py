"""Ray Data pipelines: shards -> rows -> calls -> lane. One dataset for each stage, provider and pass.

Workers read a shard's inputs from the run folder, build its calls and their keys, and leave out what the store
already has; the lane takes the calls as a stream, so that a slow row holds up nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import pyarrow as pa
import ray

from hab_ray.calls import to_json
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.store import Store
from hab_ray.work import Shard, Work

BLOCK_ROWS = 256
SHARDS_A_TASK = 8
MOST_TASKS = 16
SCHEMA = pa.schema([("shard", pa.int64()), ("row_id", pa.string()), ("call", pa.string())])


@dataclass(frozen=True)
class OpenShard:
    """A shard with calls to make; rows in `skip` were given up in this run."""

    number: int
    shard: Shard
    skip: frozenset[str]


class Expand:
    """Turns shards into their open calls, on a worker."""

    def __init__(self, work: Work, shards: Sequence[OpenShard], store: Location, failures_since: int) -> None:
        self._work, self._shards = work, {s.number: s for s in shards}
        self._path, self._failures_since = store, failures_since

    @cached_property
    def _store(self) -> Store:
        return Store(open_folder(self._path), self._failures_since)

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        """The open calls of each shard of a batch, in blocks."""
        for number in batch.column("shard").to_pylist():
            yield from self._blocks(self._shards[number])

    def _blocks(self, open_shard: OpenShard) -> Iterator[pa.Table]:
        work, shard = self._work, open_shard.shard
        settled = work.settled(shard, work.tasks(shard), self._store)
        calls = [(row_id, to_json(call)) for row_id, call in settled.open if row_id not in open_shard.skip]
        for start in range(0, len(calls), BLOCK_ROWS):
            row_ids, texts = zip(*calls[start : start + BLOCK_ROWS], strict=True)
            yield pa.table([[open_shard.number] * len(row_ids), list(row_ids), list(texts)], schema=SCHEMA)
        if not calls:
            yield SCHEMA.empty_table()


def open_calls(work: Work, shards: Sequence[OpenShard], store: Location, failures_since: int) -> ray.data.Dataset:
    """The open calls of some shards of one stage and provider, in tables of `SCHEMA`; not begun before it is read."""
    tasks = min(MOST_TASKS, ceil(len(shards) / SHARDS_A_TASK))
    numbers = ray.data.from_items([{"shard": s.number} for s in shards], override_num_blocks=tasks)
    return numbers.map_batches(
        Expand(work, shards, store, failures_since).__call__,
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=0.8,
    )
