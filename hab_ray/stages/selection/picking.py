"""Which rows of a matrix are its diverse ones: PCA, k-means, and of each cluster the row nearest to its centre.

`pick` does it in float64 as scikit-learn does, with the same seed and so with the same picks, on a matrix that one
process holds. `pick_in_blocks` does it on a matrix of any length, whose blocks are read and worked on apart; it picks
other rows, which are as good: see `clustering`.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hab_ray.rows import Embedded, State
from hab_ray.sections import Select
from hab_ray.stages.blocks import Block, BlockWorkers, Floats, Held
from hab_ray.stages.selection.clustering import (
    Axes,
    Moments,
    first_within,
    k_means,
    moments,
    nearest_rows,
    principal_axes,
    project,
    reach,
    sampled_rows,
    shortest,
)


@dataclass(frozen=True)
class Picks:
    """The chosen rows as (row, cluster), by row, and what a reader should know about the choice."""

    rows: tuple[tuple[int, int], ...]
    note: str


def pick(vectors: Floats, settings: Select) -> Picks:
    """Choose `tests` rows of an (n, d) matrix, as scikit-learn's PCA and KMeans do with the same seed.

    With no more distinct vectors than tests wanted, one row of each distinct vector is taken.
    """
    distinct = _first_of_each([vectors], settings.tests + 1)
    if len(distinct) <= settings.tests:
        return _all_of(distinct, settings)
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning

    components = min(settings.components, *vectors.shape)
    points = PCA(n_components=components, random_state=settings.seed).fit_transform(vectors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(n_clusters=settings.tests, random_state=settings.seed).fit(points)
    return _clustered(_nearest(points, fitted.cluster_centers_, fitted.labels_), settings)


def pick_in_blocks(blocks: Iterable[Block], settings: Select, workers: BlockWorkers) -> Picks:
    """Choose `tests` rows of a matrix (n, d) that is read block by block, twice, and its first blocks once more.

    What is held is the points on their principal axes, n x `components` float32 numbers. The picks depend on the rows
    of each block, and on neither the number of workers nor the order in which they finish.
    """
    distinct = _first_of_each(blocks, settings.tests + 1)
    if len(distinct) <= settings.tests:
        return _all_of(distinct, settings)
    total = reduce(Moments.joined, workers.map(moments, blocks))
    axes = principal_axes(total, min(settings.components, total.count, len(total.mean)))
    points = _points(workers, blocks, axes, sampled_rows(total.count, settings.tests, settings.seed))
    fitted = k_means(workers, points.held, points.sample, settings.tests, settings.seed)
    return _clustered(nearest_rows(workers, points.held, fitted.centers), settings)


def _all_of(distinct: Sequence[int], settings: Select) -> Picks:
    note = f"{len(distinct)} distinct candidates for {settings.tests} tests: all are taken"
    return Picks(tuple((row, cluster) for cluster, row in enumerate(distinct)), note)


def _clustered(nearest: NDArray[np.int64], settings: Select) -> Picks:
    rows = tuple(sorted((row, cluster) for cluster, row in enumerate(nearest.tolist()) if row >= 0))
    few = len(rows) < settings.tests
    return Picks(rows, f"{len(rows)} clusters for {settings.tests} tests: candidates are too alike" if few else "")


def _first_of_each(blocks: Iterable[NDArray[np.floating]], most: int) -> list[int]:
    """The first row of each distinct vector, of the first `most` of them."""
    first: dict[bytes, int] = {}
    for row, vector in enumerate(vector for block in blocks for vector in block):
        first.setdefault(vector.tobytes(), row)
        if len(first) == most:
            break
    return list(first.values())


def _nearest(points: Floats, centers: Floats, labels: NDArray[np.int32]) -> NDArray[np.int64]:
    """Of each cluster the first of the rows nearest to its centre; -1 where it has no row."""
    distances = np.linalg.norm(points - centers[labels], axis=1)
    return first_within(labels, distances, reach(shortest(labels, distances, len(centers)), centers)).rows


@dataclass(frozen=True)
class _Points:
    """The points on their principal axes, in blocks that workers can read, and a sample of them."""

    held: Sequence[Held]
    sample: Block


def _points(workers: BlockWorkers, blocks: Iterable[Block], axes: Axes, sampled: NDArray[np.int64]) -> _Points:
    held: list[Held] = []
    sample: list[Block] = []
    start = 0
    for points in workers.map(project, blocks, axes):
        own = sampled[np.searchsorted(sampled, start) : np.searchsorted(sampled, start + len(points))]
        sample.append(points[own - start])
        held.append(workers.hold(points))
        start += len(points)
    return _Points(held, np.concatenate(sample))


class VectorBlocks:
    """The vectors of the `known` candidates in blocks of float32, which each iteration reads anew.

    `ids` names the candidates of the rows, in their order, as far as the last iteration came.
    """

    def __init__(self, embedded: Iterable[Embedded], known: Container[str], block_rows: int) -> None:
        self._embedded, self._known, self._block_rows = embedded, known, block_rows
        self.ids: list[str] = []

    def __iter__(self) -> Iterator[Block]:
        self.ids = []
        usable = (row for row in self._embedded if row.state is State.OK and row.candidate_id in self._known)
        while rows := list(islice(usable, self._block_rows)):
            self.ids += [row.candidate_id for row in rows]
            yield np.stack([np.frombuffer(row.vector, dtype="<f4") for row in rows])
