"""Tasks of Ray: shards settled and rows computed on the cluster."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ray

from hab_ray.executors.protocol import Compute, RowsComputed, Settle, ShardSettled
from hab_ray.executors.settling import Site, compute_rows, settle_shard
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.store import Store

SETTLE_CPUS = 0.8


@lru_cache(maxsize=1)
def _store(path: Location, failures_since: int) -> Store:
    """One reader of the store for each worker process, which remembers what it has indexed."""
    return Store(open_folder(path), failures_since)


def _settle(site: Site, order: Settle) -> ShardSettled:
    return settle_shard(site, order, _store(site.store, site.failures_since))


def _compute(site: Site, order: Compute) -> RowsComputed:
    return compute_rows(site, order, _store(site.store, site.failures_since))


class Tasks:
    """Starts tasks for one site. `site` is the reference to it in Ray's object store, where it is put once."""

    def __init__(self, site: Site) -> None:
        self.site = ray.put(site)
        self._settle = ray.remote(num_cpus=SETTLE_CPUS)(_settle)
        self._compute = ray.remote(num_cpus=1)(_compute)

    def settle(self, order: Settle) -> Any:
        """Settle a shard; a reference to its ShardSettled."""
        return self._settle.remote(self.site, order)

    def compute(self, order: Compute) -> Any:
        """Compute a shard's rows; a reference to its RowsComputed."""
        return self._compute.remote(self.site, order)
