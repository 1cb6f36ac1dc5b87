"""Matrices that are too large for one process, as blocks of rows: how a stage has them worked on in parallel.

A stage is pure and knows no executor. It says what is done to one block, by a function at the top of a module, and
how the results are combined; `BlockWorkers` decides where that runs. Results come in the order of the blocks, so a
sum over them is the same to the last bit, however many workers there are and whichever of them is done first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NewType, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

Floats = NDArray[np.float64]
Block = NDArray[np.float32]
Held = NewType("Held", object)


class BlockWorkers(Protocol):
    """Works on blocks, as many at once as there are cores, each with one BLAS thread."""

    def hold(self, block: Block) -> Held:
        """Keep a block where the workers can read it again and again; give the result to `map` in its place."""

    def map(self, function: Callable[..., T], blocks: Iterable[Block | Held], *shared: Any) -> Iterator[T]:
        """`function(block, *shared)` of each block, in their order.

        `blocks` is read as workers become free, so that no more of it is in memory than is being worked on.
        """
