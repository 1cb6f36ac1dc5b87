"""Ray tasks that settle shards and compute rows on the cluster."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import ray

from hab_ray.cluster.nodes import cluster_cpus
from hab_ray.cluster.session import finished, result
from hab_ray.errors import sendable
from hab_ray.executors.protocol import Compute, Event, Settle
from hab_ray.executors.settling import WorkerContext, compute_rows, settle_shard
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import Store

MIN_PARALLEL = 2


@lru_cache(maxsize=1)
def _store(path: Location, failures_since: int) -> Store:
    """Return the reader of the store that this worker process keeps, with its index."""
    return Store(open_folder(path), failures_since)


def _execute(function: Callable[..., Event], site: WorkerContext, order: Settle | Compute) -> Event:
    try:
        return function(site, order, _store(site.store, site.failures_since))
    except Exception as error:
        ours = sendable(error)
        if ours is error:
            raise
        raise ours from error


class Tasks:
    """The Ray tasks of one run. Its attribute `site` is the reference to the WorkerContext in Ray's object store.

    As many tasks run at once as the cluster has CPUs, but they reserve none: workers that read a dataset hold their
    CPUs while the lane is full, possibly for hours, and would block settling.
    """

    def __init__(self, site: WorkerContext, wake: Callable[[], None]) -> None:
        self.site, self._wake = ray.put(site), wake
        self._task = ray.remote(num_cpus=0)(_execute)
        self._parallel = max(MIN_PARALLEL, cluster_cpus())
        self._waiting: deque[tuple[Callable[..., Event], Settle | Compute, str]] = deque()
        self._running: dict[Any, str] = {}

    def settle(self, order: Settle) -> None:
        self._start(settle_shard, order, "a worker that reads the store")

    def compute(self, order: Compute) -> None:
        self._start(compute_rows, order, "a worker that chooses tests")

    def poll(self) -> Iterator[Event]:
        """Yield the events of finished tasks.

        Raises:
            EngineBroke: a worker died, and Ray could not repeat its task.
            HabError, OSError: a task raised it.
        """
        for ref in finished(list(self._running)):
            who = self._running.pop(ref)
            self._fill()
            yield result(ref, who)

    def _start(self, function: Callable[..., Event], order: Settle | Compute, who: str) -> None:
        """Queue a task; `who` names its worker in messages."""
        self._waiting.append((function, order, who))
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._parallel:
            function, order, who = self._waiting.popleft()
            ref = self._task.remote(function, self.site, order)
            self._running[ref] = who
            ref.future().add_done_callback(lambda _: self._wake())
