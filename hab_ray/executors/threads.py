"""Works on blocks of a matrix in threads of this process: numpy releases the interpreter's lock while it computes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

from threadpoolctl import threadpool_limits

from hab_ray.stages.blocks import Block, Held, T


class ThreadWorkers:
    """Works on as many blocks at once as this process may use cores. See `stages.blocks.BlockWorkers`."""

    def __init__(self, at_once: int | None = None) -> None:
        self._at_once = at_once or len(os.sched_getaffinity(0))

    def hold(self, block: Block) -> Held:
        """See BlockWorkers. Threads share memory."""
        return Held(block)

    def map(self, function: Callable[..., T], blocks: Iterable[Block | Held], *shared: Any) -> Iterator[T]:
        """See BlockWorkers."""
        running: deque[Future[T]] = deque()
        coming = iter(blocks)
        with threadpool_limits(limits=1), ThreadPoolExecutor(self._at_once, "blocks") as pool:
            running.extend(pool.submit(function, block, *shared) for block in islice(coming, self._at_once + 1))
            while running:
                yield running.popleft().result()
                running.extend(pool.submit(function, block, *shared) for block in islice(coming, 1))
