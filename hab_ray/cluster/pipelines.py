"""Ray Data pipelines: spools -> calls -> lane. One dataset for each lane of a dispatch.

Workers read and decompress the spooled calls of its shards; the lane takes them as a stream, so that a slow row holds
up nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil

import pyarrow as pa
import ray

from hab_ray.executors.pending import JOB_COLUMNS, Pending, Share
from hab_ray.executors.protocol import Spool

SPOOLS_A_TASK = 8
MAX_TASKS = 16
PLACE = "place"


def _read(batch: pa.Table, pending: Pending, spools: Sequence[Spool], share: Share) -> Iterator[pa.Table]:
    """The share's calls of the spools at some places, in blocks with `JOB_COLUMNS`; on a worker."""
    for place in batch.column(PLACE).to_pylist():
        for block in pending.blocks(spools[place], JOB_COLUMNS):
            yield share.of(block)


def open_calls(pending: Pending, spools: Sequence[Spool], share: Share) -> ray.data.Dataset:
    """A share of the calls of some spools in tables with `JOB_COLUMNS`; not begun before it is read."""
    tasks = min(MAX_TASKS, ceil(len(spools) / SPOOLS_A_TASK))
    places = ray.data.from_items([{PLACE: place} for place in range(len(spools))], override_num_blocks=tasks)
    read = partial(_read, pending=pending, spools=spools, share=share)
    return places.map_batches(read, batch_size=1, batch_format="pyarrow", num_cpus=0.8)
