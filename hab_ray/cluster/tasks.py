"""Tasks of Ray: shards settled and rows computed on the cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import ray

from hab_ray.cluster.nodes import cluster_cpus
from hab_ray.cluster.session import finished, result
from hab_ray.executors.protocol import Compute, Event, Settle
from hab_ray.executors.settling import WorkerContext, compute_rows, settle_shard
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import Store

LEAST_AT_ONCE = 2


@lru_cache(maxsize=1)
def _store(path: Location, failures_since: int) -> Store:
    """One reader of the store for each worker process, which remembers what it has indexed."""
    return Store(open_folder(path), failures_since)


def _done(do: Callable[..., Event], site: WorkerContext, order: Settle | Compute) -> Event:
    return do(site, order, _store(site.store, site.failures_since))


class Tasks:
    """Runs tasks for one site. `site` is the reference to it in Ray's object store, where it is put once.

    As many run at once as the cluster has CPUs, but none reserves one: workers that read a dataset keep theirs while
    the lane has no room for more, perhaps for hours, and nothing would be settled meanwhile.
    """

    def __init__(self, site: WorkerContext, wake: Callable[[], None]) -> None:
        self.site, self._wake = ray.put(site), wake
        self._task = ray.remote(num_cpus=0)(_done)
        self._at_once = max(LEAST_AT_ONCE, cluster_cpus())
        self._waiting: deque[tuple[Callable[..., Event], Settle | Compute, str]] = deque()
        self._running: dict[Any, str] = {}

    def settle(self, order: Settle) -> None:
        self._start(settle_shard, order, "a worker that reads the store")

    def compute(self, order: Compute) -> None:
        self._start(compute_rows, order, "a worker that chooses tests")

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

    def _start(self, do: Callable[..., Event], order: Settle | Compute, who: str) -> None:
        """Do it as soon as there is room; `who` is what a message to the user calls the worker that does."""
        self._waiting.append((do, order, who))
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._at_once:
            do, order, who = self._waiting.popleft()
            ref = self._task.remote(do, self.site, order)
            self._running[ref] = who
            ref.future().add_done_callback(lambda _: self._wake())
