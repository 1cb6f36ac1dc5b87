"""Vectors to choose among, and workers that finish in an order of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab_ray.stages.blocks import Block, Held, T


def cloud(count: int, size: int, clumps: int = 40) -> NDArray[np.float64]:
    """Vectors as embeddings are: clumped, of length one, float32 by origin."""
    rng = np.random.default_rng(count)
    centers = rng.normal(size=(clumps, size))
    vectors = centers[rng.integers(clumps, size=count)] + 0.5 * rng.normal(size=(count, size))
    unit: NDArray[np.float64] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4").astype("<f8")
    return unit


def in_blocks(vectors: NDArray[np.float64], rows: int) -> list[Block]:
    """A matrix as float32, cut after so many rows each."""
    return [vectors[start : start + rows].astype("<f4") for start in range(0, len(vectors), rows)]


class ShuffledWorkers:
    """Work on all blocks in an order that `seed` gives, and hand the results out in the order of the blocks."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def hold(self, block: Block) -> Held:
        """See BlockWorkers."""
        return Held(block.copy())

    def map(self, function: Callable[..., T], blocks: Iterable[Block | Held], *shared: Any) -> Iterator[T]:
        """See BlockWorkers."""
        waiting = list(enumerate(blocks))
        self._random.shuffle(waiting)
        done = {number: function(block, *shared) for number, block in waiting}
        return iter([done[number] for number in sorted(done)])
