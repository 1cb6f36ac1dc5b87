"""Tasks of Ray that work on blocks of a matrix, on all nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import ray
from threadpoolctl import threadpool_limits

from hab_ray.cluster.nodes import cluster_cpus
from hab_ray.cluster.session import result
from hab_ray.stages.blocks import Block, Held, T


def _apply(function: Callable[..., T], block: Block, *shared: Any) -> T:
    with threadpool_limits(limits=1):
        return function(block, *shared)


class RayWorkers:
    """Works on as many blocks at once as the cluster has CPUs. See `stages.blocks.BlockWorkers`.

    Tasks reserve no CPU, like those that settle (see `tasks`), and are spread over the nodes. What is held stays in
    the object store of the caller's node, from which other nodes fetch it: one of them that dies takes nothing along,
    and Ray repeats its tasks elsewhere.
    """

    def __init__(self) -> None:
        self._apply = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(_apply)
        self._at_once = max(1, cluster_cpus())

    def hold(self, block: Block) -> Held:
        """See BlockWorkers. The block goes into Ray's object store."""
        return Held(ray.put(block))

    def map(self, function: Callable[..., T], blocks: Iterable[Block | Held], *shared: Any) -> Iterator[T]:
        """See BlockWorkers.

        Raises:
            EngineBroke: a worker died, again and again.
        """
        everywhere = [ray.put(value) for value in shared]
        tasks = (self._apply.remote(function, block, *everywhere) for block in blocks)
        running = deque(islice(tasks, self._at_once + 1))
        while running:
            yield result(running.popleft(), "a worker that chooses tests", None)
            running.extend(islice(tasks, 1))
