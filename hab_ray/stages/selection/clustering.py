"""PCA and k-means over blocks of rows: what is computed on each block, and how the results are combined.

Means and covariances add up over blocks (Chan, Golub and LeVeque 1979), as do the counts and sums of Lloyd's
algorithm. Points and distances are float32, which BLAS multiplies twice as fast; all that is summed is float64.
Centres are seeded by greedy k-means++ on a random sample and refined on it first: a pass over the sample costs a
fraction of one over all points, and leaves only a few of those to do. How many rows are
sampled for each cluster decides how good the clusters are: on clumps of uneven size, 20 left an inertia 3 % above that
of k-means++ on all rows, 50 one 0.5 % above. `TRIALS` is twice what scikit-learn takes for as many clusters as here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hab_ray.stages.blocks import Block, BlockWorkers, Floats, Held

BLOCK_ROWS = 16_384
CHUNK_ROWS = 1_024
SAMPLE_ROWS = 2 * CHUNK_ROWS
SAMPLED_PER_CLUSTER = 64
TRIALS = 16
PASSES = 25
LEAST_GAIN = 5e-4
FARTHEST = 16
SAME_DISTANCE = 1e-9  # of the largest coordinate: far above rounding in float64, far below what tells texts apart

Labels = NDArray[np.signedinteger]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Moments:
    """The number of rows, their mean (d,) and the sum of the outer products of their deviations from it (d, d)."""

    count: int
    mean: Floats
    scatter: Floats

    def joined(self, other: Moments) -> Moments:
        """Those of two sets of rows together."""
        count = self.count + other.count
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.count / count)
        between = np.outer(apart, apart) * (self.count * other.count / count)
        return Moments(count, mean, self.scatter + other.scatter + between)


def moments(block: Block) -> Moments:
    """The moments of a block's rows."""
    return reduce(Moments.joined, (_moments(chunk.astype(np.float64)) for chunk in _chunks(block)))


def _moments(rows: Floats) -> Moments:
    mean = rows.mean(axis=0)
    apart = rows - mean
    return Moments(len(rows), mean, apart.T @ apart)


@dataclass(frozen=True)
class Axes:
    """Principal axes as columns (d, c), scaled so that the first has variance 1, and the mean (d,) they start at."""

    mean: Floats
    columns: Floats


def principal_axes(total: Moments, components: int) -> Axes:
    """The axes of greatest variance. One scale for all of them moves no point nearer to another centre."""
    variances, vectors = np.linalg.eigh(total.scatter / max(1, total.count - 1))
    widest = float(variances[-1])
    return Axes(total.mean, vectors[:, ::-1][:, :components] / np.sqrt(widest if widest > 0 else 1.0))


def project(block: Block, axes: Axes) -> Block:
    """A block's rows by their coordinates on the axes."""
    return np.concatenate([((chunk - axes.mean) @ axes.columns).astype(np.float32) for chunk in _chunks(block)])


@dataclass(frozen=True)
class Assignment:
    """Rows assigned to their nearest centres: of each cluster the count (k,) and sum (k, d), and of all rows the
    squared length. `strays` are the rows farthest from their centres, by falling `distances` (squared).
    """

    counts: NDArray[np.int64]
    sums: Floats
    squares: float
    distances: Block
    strays: Block

    def joined(self, other: Assignment) -> Assignment:
        """Those of two sets of rows together."""
        return Assignment(
            self.counts + other.counts,
            self.sums + other.sums,
            self.squares + other.squares,
            np.concatenate([self.distances, other.distances]),
            np.concatenate([self.strays, other.strays]),
        )

    def inertia(self, centers: Floats) -> float:
        """The sum of squared distances between rows and the centres they were assigned to."""
        lengths = np.einsum("kd,kd->k", centers, centers)
        return float(self.squares - 2 * np.vdot(centers, self.sums) + self.counts @ lengths)

    def centers(self, before: Floats) -> Floats:
        """The mean of each cluster; of one without rows a stray, as far as there are any, else where it was."""
        is_empty = self.counts == 0
        centers = np.where(is_empty[:, None], before, self.sums / np.maximum(1, self.counts)[:, None])
        order = np.argsort(-self.distances, kind="stable")
        taken = order[self.distances[order] > 0][: is_empty.sum()]
        centers[np.flatnonzero(is_empty)[: len(taken)]] = self.strays[taken]
        return centers


def assign(block: Block, centers: Floats) -> Assignment:
    """A block's rows assigned to their nearest centres; of equally near ones to the first."""
    labels, distances = _nearest_centers(block, centers)
    counts = np.bincount(labels, minlength=len(centers))
    far = np.argsort(-distances, kind="stable")[:FARTHEST]
    squares = float(np.einsum("nd,nd->", block, block, dtype=np.float64))
    return Assignment(counts, _sums(block, labels, len(centers)), squares, distances[far], block[far])


def _nearest_centers(block: Block, centers: Floats) -> tuple[Labels, Block]:
    """The nearest centre of each row, and its squared distance: |x|^2 - 2 max(x c - |c|^2 / 2)."""
    narrow = centers.astype(np.float32)
    halves = (np.einsum("kd,kd->k", centers, centers) / 2).astype(np.float32)
    nearness = np.empty((min(CHUNK_ROWS, len(block)), len(centers)), dtype=np.float32)
    labels, best = np.empty(len(block), dtype=np.intp), np.empty(len(block), dtype=np.float32)
    for start in range(0, len(block), CHUNK_ROWS):
        rows = slice(start, min(start + CHUNK_ROWS, len(block)))
        scores = nearness[: rows.stop - start]
        np.matmul(block[rows], narrow.T, out=scores)
        scores -= halves
        labels[rows] = scores.argmax(axis=1)
        best[rows] = np.take_along_axis(scores, labels[rows, None], axis=1)[:, 0]
    return labels, np.maximum(0, np.einsum("nd,nd->n", block, block) - 2 * best)


def _sums(block: Block, labels: Labels, clusters: int) -> Floats:
    from scipy.sparse import csr_matrix

    ones = (np.ones(len(block)), (labels, np.arange(len(block))))
    sums: Floats = csr_matrix(ones, shape=(clusters, len(block))) @ block.astype(np.float64)
    return sums


@dataclass(frozen=True)
class FirstRows:
    """Of each cluster (k,) the first row that counts, -1 where none does, among `count` rows."""

    rows: NDArray[np.int64]
    count: int

    def joined(self, other: FirstRows) -> FirstRows:
        """Those of these rows and of the ones that follow them."""
        later = np.where(other.rows >= 0, other.rows + self.count, -1)
        return FirstRows(np.where(self.rows >= 0, self.rows, later), self.count + other.count)


def shortest(labels: Labels, distances: Floats, clusters: int) -> Floats:
    """Of each cluster (k,) the distance of its nearest row, given each row's cluster and distance; inf without rows."""
    found = np.full(clusters, np.inf)
    np.minimum.at(found, labels, distances)
    return found


def first_within(labels: Labels, distances: Floats, bounds: Floats) -> FirstRows:
    """Of each cluster (k,) the first row whose distance is at most the cluster's bound."""
    near = np.flatnonzero(distances <= bounds[labels])
    clusters, first = np.unique(labels[near], return_index=True)
    rows = np.full(len(bounds), -1)
    rows[clusters] = near[first]
    return FirstRows(rows, len(labels))


def reach(distances: Floats, centers: Floats) -> Floats:
    """How far rows may be to count as nearest, given the distances of those that are.

    The two members of a cluster are equally far from the centre between them; which of them is nearer in floating
    point is a matter of rounding, and so of the machine.
    """
    return distances + SAME_DISTANCE * float(np.abs(centers).max())


def _shortest(block: Block, centers: Floats) -> Floats:
    return shortest(*_own_distances(block, centers), len(centers))


def _first_within(block: Block, centers: Floats, bounds: Floats) -> FirstRows:
    return first_within(*_own_distances(block, centers), bounds)


def _own_distances(block: Block, centers: Floats) -> tuple[Labels, Floats]:
    labels, _ = _nearest_centers(block, centers)
    pairs = zip(_chunks(block), _chunks(labels), strict=True)
    return labels, np.concatenate([np.linalg.norm(chunk - centers[own], axis=1) for chunk, own in pairs])


@dataclass(frozen=True)
class Fitted:
    """Centres (k, d), what the last pass found their inertia to be, and how many passes over all points it took."""

    centers: Floats
    inertia: float
    passes: int


def lloyd(
    workers: BlockWorkers,
    blocks: Sequence[Block | Held],
    centers: Floats,
    passes: int = PASSES,
    gain: float = LEAST_GAIN,
) -> Fitted:
    """Refine centres until a pass lowers the inertia by less than `gain` of it, at most `passes` times.

    The inertia is that of the centres which the last pass began with; those returned are one step better.
    """
    inertia, done = np.inf, 0
    while done < passes:
        done += 1
        total = reduce(Assignment.joined, workers.map(assign, blocks, centers))
        before, inertia = inertia, total.inertia(centers)
        centers = total.centers(centers)
        if before - inertia <= gain * inertia:
            break
    return Fitted(centers, inertia, done)


def k_means(workers: BlockWorkers, blocks: Sequence[Block | Held], sample: Block, clusters: int, seed: int) -> Fitted:
    """Cluster the rows of blocks around centres that are seeded and refined on a sample of them."""
    from sklearn.cluster import kmeans_plusplus

    seeds, _ = kmeans_plusplus(sample.astype(np.float64), clusters, random_state=seed, n_local_trials=TRIALS)
    parts = [workers.hold(part) for part in _chunks(sample, SAMPLE_ROWS)]
    return lloyd(workers, blocks, lloyd(workers, parts, seeds).centers)


def sampled_rows(count: int, clusters: int, seed: int) -> NDArray[np.int64]:
    """The rows, rising, of a random sample that is large enough to seed so many clusters."""
    size = min(count, SAMPLED_PER_CLUSTER * clusters)
    return np.sort(np.random.default_rng(seed).choice(count, size, replace=False))


def nearest_rows(workers: BlockWorkers, blocks: Sequence[Block | Held], centers: Floats) -> NDArray[np.int64]:
    """Of each cluster (k,) the first of the rows nearest to its centre, within `reach`; -1 where it has no row."""
    distances = reduce(np.minimum, workers.map(_shortest, blocks, centers))
    return reduce(FirstRows.joined, workers.map(_first_within, blocks, centers, reach(distances, centers))).rows


def _chunks(rows: NDArray[Number], size: int = CHUNK_ROWS) -> list[NDArray[Number]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
