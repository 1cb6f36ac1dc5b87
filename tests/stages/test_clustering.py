"""Axes and clusters over blocks are those that scikit-learn finds on the whole matrix."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from hab_ray.stages.selection.clustering import (
    CHUNK_ROWS,
    FARTHEST,
    Assignment,
    Moments,
    assign,
    k_means,
    lloyd,
    moments,
    nearest_rows,
    principal_axes,
    project,
    sampled_rows,
)
from tests.clouds import ShuffledWorkers, cloud, in_blocks

WORKERS = ShuffledWorkers(0)


@pytest.fixture(autouse=True)
def one_blas_thread() -> Iterator[None]:
    """As executors compute."""
    with threadpool_limits(limits=1):
        yield


@pytest.mark.parametrize("rows", [70, 333, 1000])
def test_points_on_the_axes_are_those_of_pca_up_to_sign_and_scale(rows: int) -> None:
    vectors = cloud(1000, 48) + 3.0
    total = reduce(Moments.joined, WORKERS.map(moments, in_blocks(vectors, rows)))
    axes = principal_axes(total, 10)
    points = np.concatenate(list(WORKERS.map(project, in_blocks(vectors, rows), axes))).astype(np.float64)
    expected = PCA(10, svd_solver="full").fit_transform(vectors)
    expected /= expected[:, 0].std(ddof=1)
    signs = np.sign((points * expected).sum(axis=0))
    assert total.count == 1000
    assert np.abs(points * signs - expected).max() < 1e-4
    assert points[:, 0].std(ddof=1) == pytest.approx(1, rel=1e-5)


def test_rows_that_are_all_alike_have_axes_without_numbers_that_are_none() -> None:
    axes = principal_axes(moments(np.ones((5, 4), dtype=np.float32)), 2)
    assert np.array_equal(project(np.ones((5, 4), dtype=np.float32), axes), np.zeros((5, 2)))


@pytest.mark.parametrize(("rows", "passes"), [(100, 1), (100, 4), (CHUNK_ROWS + 7, 4), (3000, 4)])
def test_passes_over_blocks_end_where_those_of_sklearn_end(rows: int, passes: int) -> None:
    points = cloud(3000, 20)
    start = points[::100]
    fitted = lloyd(WORKERS, in_blocks(points, rows), start, passes, gain=0)
    expected = KMeans(len(start), init=start, n_init=1, max_iter=passes, tol=0).fit(points)
    assert fitted.passes == passes
    assert np.abs(fitted.centers - expected.cluster_centers_).max() < 1e-6
    found = nearest_rows(WORKERS, in_blocks(points, rows), fitted.centers)
    for cluster, center in enumerate(expected.cluster_centers_):
        members = np.flatnonzero(expected.labels_ == cluster)
        assert found[cluster] == members[np.linalg.norm(points[members] - center, axis=1).argmin()]


def test_every_row_is_assigned_to_the_centre_nearest_to_it() -> None:
    points, centers = cloud(500, 8), cloud(20, 8)
    total = reduce(Assignment.joined, WORKERS.map(assign, in_blocks(points, 90), centers))
    distances = ((points[:, None] - centers) ** 2).sum(axis=2)
    labels = distances.argmin(axis=1)
    assert total.counts.tolist() == np.bincount(labels, minlength=20).tolist()
    for cluster in range(20):
        assert np.allclose(total.sums[cluster], points[labels == cluster].sum(axis=0))
    assert total.inertia(centers) == pytest.approx(distances.min(axis=1).sum(), rel=1e-6)


def test_inertia_falls_with_each_pass_and_passes_end_with_the_gain() -> None:
    blocks = in_blocks(cloud(2000, 16), 300)
    start = cloud(2000, 16)[:50]
    falling = [lloyd(WORKERS, blocks, start, passes, gain=0).inertia for passes in range(1, 8)]
    assert all(before > after for before, after in pairwise(falling))
    fitted = lloyd(WORKERS, blocks, start, gain=0.01)
    gains = [(before - after) / after for before, after in pairwise(falling)]
    assert fitted.passes == 2 + next(n for n, gain in enumerate(gains) if gain <= 0.01)


def test_a_centre_without_rows_goes_to_the_row_farthest_from_its_own() -> None:
    points = np.array([[0.0, 0], [0, 1], [9, 9], [0, 2]])
    far = np.full((2, 2), 1e3)
    total = reduce(Assignment.joined, WORKERS.map(assign, in_blocks(points, 2), np.vstack([points[:1], far])))
    moved = total.centers(np.vstack([points[:1], far]))
    assert moved.tolist() == [[2.25, 3.0], [9.0, 9.0], [0.0, 2.0]]


def test_no_more_centres_move_than_there_are_rows_apart() -> None:
    points = np.zeros((FARTHEST * 2, 2))
    points[-1] = 1.0
    centers = np.vstack([[0.0, 0.0], np.full((40, 2), 50.0)])
    moved = assign(points.astype(np.float32), centers).centers(centers)
    assert moved[1].tolist() == [1.0, 1.0] and (moved[2:] == 50).all()


def test_of_equally_near_rows_the_first_is_taken_across_blocks_too() -> None:
    points = np.array([[9.0], [1.0], [-1.0], [1.0], [-9.0]])
    for rows in (1, 2, 5):
        found = nearest_rows(WORKERS, in_blocks(points, rows), np.array([[0.0], [100.0]]))
        assert found.tolist() == [1, -1]


def test_clusters_from_a_sample_are_as_good_as_those_of_sklearn() -> None:
    points = cloud(6000, 24, clumps=60)
    blocks = in_blocks(points, 700)
    sample = points[sampled_rows(6000, 60, 1)].astype(np.float32)
    assert len(sample) == 3840
    fitted = k_means(WORKERS, blocks, sample, 60, 1)
    expected = KMeans(60, n_init=1, max_iter=25, random_state=1).fit(points)
    assert fitted.inertia <= 1.01 * expected.inertia_


def test_the_sample_is_everything_where_there_is_little() -> None:
    assert sampled_rows(30, 5, 0).tolist() == list(range(30))
    rows = sampled_rows(1000, 5, 0)
    assert len(set(rows.tolist())) == 320 and (np.diff(rows) > 0).all()
    assert rows.tolist() != sampled_rows(1000, 5, 1).tolist()
