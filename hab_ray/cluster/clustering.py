"""Selection fanned out over dimensions: one Ray task a dimension, one BLAS thread a task."""

from __future__ import annotations

from typing import Any

import ray
from threadpoolctl import threadpool_limits

from hab_ray.location import Location
from hab_ray.rows import ChosenTest
from hab_ray.storage.folder import open_folder
from hab_ray.storage.store import Store
from hab_ray.work import Shard, Work

Chosen = tuple[list[ChosenTest], str]


def choose_one(work: Work, shard: Shard, store_path: Location) -> Chosen:
    """The tests of one dimension, and a note on them, from the vectors in the store."""
    settled = work.settled(shard, work.tasks(shard), Store(open_folder(store_path)))
    with threadpool_limits(limits=1):
        return work.choose_tests(shard.dimension, settled.rows)


def start_choosing(work: Work, shard: Shard, store_path: Location) -> Any:
    """Choose the tests of one dimension somewhere on the cluster; a reference to its `Chosen`."""
    return ray.remote(num_cpus=1)(choose_one).remote(work, shard, store_path)
