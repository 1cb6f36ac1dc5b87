"""Vectors to choose among."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hab_ray.stages.selection.picking import Block


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
