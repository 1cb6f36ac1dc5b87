"""Choose diverse rows of a matrix: PCA, k-means, and the row nearest to the centre of each cluster.

Both use one thread: two changed 27 of 500 picks, so the picks would depend on the machine's cores, and were slower.
`pick` holds the whole matrix in float64 and makes the same picks as scikit-learn with the same seed. `pick_in_blocks`
reads a matrix of any length block by block and holds only its points on the principal axes; it picks different rows
of the same quality. Its k-means is seeded by greedy k-means++ on a random sample and refined on that sample first, so
that few passes over all points remain. The sample size per cluster determines the quality: on clusters of uneven size,
20 rows gave an inertia 3 % above that of k-means++ on all rows, and 50 rows 0.5 % above. `TRIALS` is twice
scikit-learn's default for this number of clusters. MiniBatchKMeans gave an inertia 1.5 to 5 % higher, and
IncrementalPCA took six times the CPU time for axes that explain 0.1 % less.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hab_ray.config.sections import Select
from hab_ray.errors import ConfigError
from hab_ray.rows import Embedded, State
from hab_ray.visible import one_line

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

BLOCK_ROWS = 2_048
SAMPLED_PER_CLUSTER = 64
TRIALS = 16
PASSES_OVER_SAMPLE, PASSES = 25, 10
MAX_REASON = 200
SAME_DISTANCE = 1e-9  # relative to the largest coordinate: far above rounding errors, far below differences of texts

_ONE_AT_A_TIME = threading.Lock()

Floats = NDArray[np.float64]
Lost = Counter[tuple[State, str]]  # rows by state and reason
Block = NDArray[np.float32]


@dataclass(frozen=True)
class Picks:
    """The chosen (row, cluster) pairs, sorted by row, and a note for the user or ""."""

    rows: tuple[tuple[int, int], ...]
    note: str

    def naming(self, lost: Lost) -> Picks:
        """Return the picks with a note that also says why candidates have no vector."""
        left_out = f"left out for want of a vector: {described(lost)}" if lost else ""
        return replace(self, note="; ".join(filter(None, (self.note, left_out))))


def pick(vectors: Floats, settings: Select) -> Picks:
    """Choose `settings.tests` rows of an (n, d) matrix, as scikit-learn's PCA and KMeans do with the same seed.

    If there are no more distinct vectors than requested tests, take one row of each.
    """
    distinct = _first_of_each([vectors], settings.tests + 1)
    if len(distinct) <= settings.tests:
        return _all_of(distinct, settings)
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    with _one_thread():
        components = min(settings.components, *vectors.shape)
        points = PCA(n_components=components, random_state=settings.seed).fit_transform(vectors)
        return _clustered(points, _fitted(KMeans(settings.tests, random_state=settings.seed), points), settings)


def pick_in_blocks(blocks: Iterable[Block], settings: Select) -> Picks:
    """Do the same for an (n, d) matrix that is read block by block: twice, and its first blocks once more.

    Memory holds the n points on the principal axes, `settings.components` float64 numbers each.
    """
    distinct = _first_of_each(blocks, settings.tests + 1)
    if len(distinct) <= settings.tests:
        return _all_of(distinct, settings)
    with _one_thread():
        mean, axes = principal_axes(blocks, settings.components)
        points = np.concatenate([(block - mean) @ axes for block in blocks])
        return _clustered(points, clusters_of_many(points, settings.tests, settings.seed), settings)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit BLAS to one thread, for one choice at a time: the limit is the whole process's, and ends with the first.

    It binds only libraries that are loaded, so they are loaded before.
    """
    for name in ("sklearn.cluster", "sklearn.decomposition"):
        import_module(name)
    with _ONE_AT_A_TIME, threadpool_limits(limits=1):
        yield


def clusters_of_many(points: Floats, clusters: int, seed: int) -> KMeans:
    """Fit k-means to points (n, c), with centres seeded and refined on a sample of them."""
    from sklearn.cluster import KMeans, kmeans_plusplus

    size = min(len(points), SAMPLED_PER_CLUSTER * clusters)
    sample = points[np.sort(np.random.default_rng(seed).choice(len(points), size, replace=False))]
    centers, _ = kmeans_plusplus(sample, clusters, random_state=seed, n_local_trials=TRIALS)
    refined = _fitted(KMeans(clusters, init=centers, max_iter=PASSES_OVER_SAMPLE), sample)
    return _fitted(KMeans(clusters, init=refined.cluster_centers_, max_iter=PASSES, copy_x=False), points)


def _fitted(k_means: KMeans, points: Floats) -> KMeans:
    """Fit without the warning about too few distinct clusters: `Picks.note` reports it."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return k_means.fit(points)


def principal_axes(blocks: Iterable[Block], components: int) -> tuple[Floats, Floats]:
    """Return the mean of all rows (d,) and the axes of greatest variance as columns (d, c), exact but for rounding.

    The axes share one scale, which gives the first variance 1. This changes no nearest centre.
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


def _first_of_each(blocks: Iterable[NDArray[np.floating]], limit: int) -> list[int]:
    """Return the first row of each distinct vector; stop after `limit` of them."""
    first: dict[bytes, int] = {}
    for row, vector in enumerate(vector for block in blocks for vector in block):
        first.setdefault(vector.tobytes(), row)
        if len(first) == limit:
            break
    return list(first.values())


def nearest_rows(points: Floats, centers: Floats, labels: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the first of the rows nearest to each cluster's centre (k,), or -1 for an empty cluster.

    Both members of a cluster of two are equally far from their centre. Rounding, which depends on the machine, would
    decide between them, so all rows within `SAME_DISTANCE` of the minimum count as nearest.
    """
    distances = np.linalg.norm(points - centers[labels], axis=1)
    bounds = np.full(len(centers), np.inf)
    np.minimum.at(bounds, labels, distances)
    near = np.flatnonzero(distances <= (bounds + SAME_DISTANCE * np.abs(centers).max())[labels])
    clusters, first = np.unique(labels[near], return_index=True)
    rows = np.full(len(centers), -1)
    rows[clusters] = near[first]
    return rows


def usable_vectors(
    embedded: Iterable[Embedded], candidates: Container[str], model: str, lost: Lost
) -> Iterator[Embedded]:
    """Yield the rows of some candidates that have a vector, and count those without one in `lost`.

    Raises:
        ConfigError: a vector of the model has another length than the first.
    """
    first = None
    for row in embedded:
        if row.state is not State.OK:
            lost[row.state, row.reason] += 1
        elif row.candidate_id in candidates:
            first = first or row
            if len(row.vector) != len(first.vector):
                raise ConfigError(
                    f"select.embedding: {model} gave {len(first.vector) // 4} numbers for candidate "
                    f"{first.candidate_id} and {len(row.vector) // 4} for {row.candidate_id}, so the model behind this "
                    "name has changed; name another embedding model, and give the sweep another `run:`"
                )
            yield row


def described(rows: Lost) -> str:
    """Return the number of rows in each state, with the most frequent reason."""
    states = Counter[State]()
    reasons: dict[State, str] = {}
    for (state, reason), count in rows.most_common():
        states[state] += count
        reasons.setdefault(state, f" ({one_line(reason, MAX_REASON)})" if reason else "")
    return ", ".join(f"{count:,} {state}{reasons[state]}" for state, count in states.most_common()) or "none"


class VectorBlocks:
    """The vectors of some candidates by one model in blocks of float32, read again by each iteration.

    `ids` are the candidates of the rows that the last iteration has read so far, and `lost` counts those without a
    vector.
    """

    def __init__(self, embedded: Iterable[Embedded], candidates: Container[str], model: str, block_rows: int) -> None:
        self._usable, self._block_rows = partial(usable_vectors, embedded, candidates, model), block_rows
        self.ids: list[str] = []
        self.lost = Lost()

    def __iter__(self) -> Iterator[Block]:
        self.ids, self.lost = [], Lost()
        usable = self._usable(self.lost)
        while rows := list(islice(usable, self._block_rows)):
            self.ids += [row.candidate_id for row in rows]
            yield np.stack([np.frombuffer(row.vector, dtype="<f4") for row in rows])
