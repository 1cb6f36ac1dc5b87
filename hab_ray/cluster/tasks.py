"""Tasks of Ray: shards settled and rows computed on the cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ray

from hab_ray.cluster.nodes import cluster_cpus
from hab_ray.cluster.session import finished, result
from hab_ray.executors.protocol import Compute, Event, RowsComputed, Settle, ShardSettled
from hab_ray.executors.settling import WorkerContext, compute_rows, settle_shard
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import Store

LEAST_AT_ONCE = 2


@lru_cache(maxsize=1)
def _store(path: Location, failures_since: int) -> Store:
    """One reader of the store for each worker process, which remembers what it has indexed."""
    return Store(open_folder(path), failures_since)


def _settle(site: WorkerContext, order: Settle) -> ShardSettled:
    return settle_shard(site, order, _store(site.store, site.failures_since))


def _compute(site: WorkerContext, order: Compute) -> RowsComputed:
    return compute_rows(site, order, _store(site.store, site.failures_since))


@dataclass(frozen=True)
class _Task:
    """Something to start, and what a message to the user calls the worker that does it."""

    start: Callable[[], Any]
    who: str


class Tasks:
    """Runs tasks for one site. `site` is the reference to it in Ray's object store, where it is put once.

    As many run at once as the cluster has CPUs, but none reserves one: workers that read a dataset keep theirs while
    the lane has no room for more, perhaps for hours, and nothing would be settled meanwhile.
    """

    def __init__(self, site: WorkerContext, wake: Callable[[], None]) -> None:
        self.site, self._wake = ray.put(site), wake
        self._settle, self._compute = ray.remote(num_cpus=0)(_settle), ray.remote(num_cpus=0)(_compute)
        self._at_once = max(LEAST_AT_ONCE, cluster_cpus())
        self._waiting: deque[_Task] = deque()
        self._running: dict[Any, str] = {}

    def settle(self, order: Settle) -> None:
        """Settle a shard as soon as there is room."""
        self._start(_Task(lambda: self._settle.remote(self.site, order), "a worker that reads the store"))

    def compute(self, order: Compute) -> None:
        """Compute a shard's rows as soon as there is room."""
        self._start(_Task(lambda: self._compute.remote(self.site, order), "a worker that chooses tests"))

    def poll(self) -> Iterator[Event]:
        """What tasks have found since the last call.

        Raises:
            EngineBroke: the worker of one died, and Ray could not repeat it.
            HabError, OSError: what a task raised itself.
        """
        for ref in finished(list(self._running)):
            who = self._running.pop(ref)
            self._fill()
            yield result(ref, who)

    def _start(self, task: _Task) -> None:
        self._waiting.append(task)
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._at_once:
            task = self._waiting.popleft()
            ref = task.start()
            self._running[ref] = task.who
            ref.future().add_done_callback(lambda _: self._wake())
