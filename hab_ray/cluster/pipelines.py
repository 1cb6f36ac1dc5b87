"""Ray Data pipelines: spools -> calls -> lane, with one dataset per lane and dispatch.

Workers read and decompress the spooled calls; the lane consumes them as a stream, so that a slow row blocks no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil

import pyarrow as pa
import ray

from hab_ray.executors.pending import JOB_COLUMNS, Pending, Share
from hab_ray.executors.protocol import Spool

SPOOLS_PER_TASK = 8
MAX_TASKS = 16
INDEX = "index"


def _read(batch: pa.Table, pending: Pending, spools: Sequence[Spool], share: Share) -> Iterator[pa.Table]:
    for index in batch.column(INDEX).to_pylist():
        for block in pending.blocks(spools[index], JOB_COLUMNS):
            yield share.of(block)


def open_calls(pending: Pending, spools: Sequence[Spool], share: Share) -> ray.data.Dataset:
    """Return a lazy dataset of a share of the calls of some spools, as tables with `JOB_COLUMNS`."""
    tasks = min(MAX_TASKS, ceil(len(spools) / SPOOLS_PER_TASK))
    indices = ray.data.from_items([{INDEX: index} for index in range(len(spools))], override_num_blocks=tasks)
    read = partial(_read, pending=pending, spools=spools, share=share)
    return indices.map_batches(read, batch_size=1, batch_format="pyarrow", num_cpus=0.8)
