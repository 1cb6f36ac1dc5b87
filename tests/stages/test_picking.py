"""What is picked in blocks: diverse rows, as good as those that scikit-learn finds on the whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from hab_ray.rows import State
from hab_ray.stages.selection.picking import (
    Block,
    Picks,
    VectorBlocks,
    clusters_of_many,
    pick,
    pick_in_blocks,
    principal_axes,
)
from tests.clouds import cloud, in_blocks
from tests.stages.conftest import embedded, selecting

pytestmark = pytest.mark.usefixtures("one_blas_thread")


@pytest.mark.parametrize("rows", [70, 333, 1000])
def test_points_on_the_axes_are_those_of_pca_up_to_sign_and_scale(rows: int) -> None:
    vectors = cloud(1000, 48) + 3.0
    mean, axes = principal_axes(in_blocks(vectors, rows), 10)
    points = (vectors - mean) @ axes
    expected = PCA(10, svd_solver="full").fit_transform(vectors)
    expected /= expected[:, 0].std()
    signs = np.sign((points * expected).sum(axis=0))
    assert np.abs(points * signs - expected).max() < 1e-4
    assert points[:, 0].std() == pytest.approx(1, rel=1e-5)


def test_rows_that_are_all_alike_have_axes_without_numbers_that_are_none() -> None:
    mean, axes = principal_axes([np.ones((5, 4), dtype=np.float32)], 2)
    assert np.array_equal((np.ones((5, 4)) - mean) @ axes, np.zeros((5, 2)))


@pytest.mark.parametrize(("count", "clumps", "clusters"), [(6000, 40, 60), (6000, 400, 60), (20_000, 400, 100)])
def test_clusters_of_many_are_as_tight_as_those_of_sklearn(count: int, clumps: int, clusters: int) -> None:
    points = cloud(count, 20, clumps)
    expected = KMeans(clusters, n_init=1, random_state=0).fit(points).inertia_
    assert clusters_of_many(points.copy(), clusters, 0).inertia_ < 1.01 * expected


def test_the_picks_in_blocks_are_repeated_and_one_of_each_cluster() -> None:
    blocks = in_blocks(cloud(3000, 64), 250)
    picks = pick_in_blocks(blocks, selecting(90))
    assert picks == pick_in_blocks(blocks, selecting(90)) and picks.note == ""
    assert [row for row, _ in picks.rows] == sorted({row for row, _ in picks.rows})
    assert sorted(cluster for _, cluster in picks.rows) == list(range(90))


def test_the_size_of_blocks_changes_no_more_than_the_last_digits() -> None:
    vectors = cloud(3000, 64, clumps=50)
    whole = pick_in_blocks(in_blocks(vectors, 3000), selecting(50))
    cut = pick_in_blocks(in_blocks(vectors, 130), selecting(50))
    assert len({row for row, _ in whole.rows} & {row for row, _ in cut.rows}) >= 48


def test_each_clump_gives_a_row() -> None:
    """The clumps of the cloud lie far apart: one pick of each is what diversity means here."""
    vectors = cloud(4000, 64, clumps=30)
    picked = [row for row, _ in pick_in_blocks(in_blocks(vectors, 500), selecting(30)).rows]
    similar = vectors[picked] @ vectors[picked].T - np.eye(30)
    assert similar.max() < 0.6
    assert (vectors @ vectors[picked].T).max(axis=1).min() > 0.6


@pytest.mark.parametrize(("distinct", "tests"), [(5, 8), (8, 8), (1, 3)])
def test_few_distinct_vectors_are_all_taken_as_by_the_other_way(distinct: int, tests: int) -> None:
    vectors = np.repeat(cloud(distinct, 16), 40, axis=0)
    assert pick_in_blocks(in_blocks(vectors, 60), selecting(tests)) == pick(vectors, selecting(tests))


def test_clusters_that_stay_empty_are_said_either_way() -> None:
    vectors = np.zeros((120, 4))
    vectors[:, 0] = np.repeat([1.0, 2.0, 3.0], 40)
    vectors[::2, 1], vectors[1::4, 2] = -0.0, -0.0  # equal numbers, other bytes
    for picks in (pick(vectors, selecting(6)), pick_in_blocks(in_blocks(vectors, 50), selecting(6))):
        assert picks == Picks(picks.rows, "3 clusters for 6 tests: candidates are too alike") and len(picks.rows) == 3


def test_huge_numbers_and_one_axis_are_no_problem() -> None:
    vectors = cloud(300, 16)
    vectors[7] *= 1e30
    picks = pick_in_blocks(in_blocks(vectors, 64), selecting(7))
    assert 7 in [row for row, _ in picks.rows]
    assert len(pick_in_blocks(in_blocks(cloud(300, 1), 64), selecting(2)).rows) == 2


class Counted:
    """Blocks that count how often they were read."""

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        self.read = 0

    def __iter__(self) -> Iterator[Block]:
        for block in self._blocks:
            self.read += 1
            yield block


def test_blocks_are_read_twice_and_the_first_once_more() -> None:
    blocks = Counted(in_blocks(cloud(2000, 32), 100))
    pick_in_blocks(blocks, selecting(40))
    assert blocks.read == 2 * 20 + 1


def test_blocks_leave_out_what_has_no_vector_or_is_unknown() -> None:
    rows = [embedded("a", [1, 2]), embedded("b", [], State.FAILED), embedded("c", [3, 4]), embedded("d", [5, 6])]
    blocks = VectorBlocks([*rows, embedded("stranger", [7, 8])], {"a", "b", "c", "d"}, block_rows=2)
    for _ in range(2):
        assert [block.tolist() for block in blocks] == [[[1, 2], [3, 4]], [[5, 6]]]
        assert blocks.ids == ["a", "c", "d"]
