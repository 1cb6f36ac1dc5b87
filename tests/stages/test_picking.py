"""What is picked in blocks: diverse rows, the same ones however the work was shared out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from hab_ray.executors.threads import ThreadWorkers
from hab_ray.rows import Embedded, State
from hab_ray.sections import Select
from hab_ray.stages.blocks import Block
from hab_ray.stages.selection.picking import Picks, VectorBlocks, pick, pick_in_blocks
from tests.clouds import ShuffledWorkers, cloud, in_blocks


@pytest.fixture(autouse=True)
def one_blas_thread() -> Iterator[None]:
    """As executors compute."""
    with threadpool_limits(limits=1):
        yield


def settings(tests: int, components: int = 50) -> Select:
    return Select(embedding="m", tests=tests, components=components)


def test_the_picks_do_not_depend_on_who_is_done_first() -> None:
    blocks = in_blocks(cloud(3000, 64), 250)
    picked = {pick_in_blocks(blocks, settings(90), ShuffledWorkers(seed)) for seed in range(3)}
    picked |= {pick_in_blocks(blocks, settings(90), ThreadWorkers(at_once)) for at_once in (1, 2, 5)}
    assert len(picked) == 1
    (picks,) = picked
    assert len(picks.rows) == 90 and picks.note == ""
    assert [row for row, _ in picks.rows] == sorted({row for row, _ in picks.rows})
    assert sorted(cluster for _, cluster in picks.rows) == list(range(90))


def test_the_size_of_blocks_changes_no_more_than_the_last_digits() -> None:
    vectors = cloud(3000, 64, clumps=50)
    whole = pick_in_blocks(in_blocks(vectors, 3000), settings(50), ThreadWorkers())
    cut = pick_in_blocks(in_blocks(vectors, 130), settings(50), ThreadWorkers())
    assert len({row for row, _ in whole.rows} & {row for row, _ in cut.rows}) >= 48


def test_each_clump_gives_a_row() -> None:
    """The clumps of the cloud lie far apart: one pick of each is what diversity means here."""
    vectors = cloud(4000, 64, clumps=30)
    picked = [row for row, _ in pick_in_blocks(in_blocks(vectors, 500), settings(30), ThreadWorkers()).rows]
    similar = vectors[picked] @ vectors[picked].T - np.eye(30)
    assert similar.max() < 0.6
    assert (vectors @ vectors[picked].T).max(axis=1).min() > 0.6


@pytest.mark.parametrize(("distinct", "tests"), [(5, 8), (8, 8), (1, 3)])
def test_few_distinct_vectors_are_all_taken_as_by_the_other_way(distinct: int, tests: int) -> None:
    vectors = np.repeat(cloud(distinct, 16), 40, axis=0)
    assert pick_in_blocks(in_blocks(vectors, 60), settings(tests), ThreadWorkers()) == pick(vectors, settings(tests))


def test_clusters_that_stay_empty_are_said() -> None:
    vectors = np.zeros((120, 4))
    vectors[:, 0] = np.repeat([1.0, 2.0, 3.0], 40)
    vectors[::2, 1], vectors[1::4, 2] = -0.0, -0.0  # equal numbers, other bytes
    picks = pick_in_blocks(in_blocks(vectors, 50), settings(6), ThreadWorkers())
    assert picks == Picks(picks.rows, "3 clusters for 6 tests: candidates are too alike") and len(picks.rows) == 3


def test_huge_numbers_and_one_axis_are_no_problem() -> None:
    vectors = cloud(300, 16)
    vectors[7] *= 1e30
    picks = pick_in_blocks(in_blocks(vectors, 64), settings(7), ThreadWorkers())
    assert 7 in [row for row, _ in picks.rows]
    assert len(pick_in_blocks(in_blocks(cloud(300, 1), 64), settings(2), ThreadWorkers()).rows) == 2


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
    pick_in_blocks(blocks, settings(40), ThreadWorkers())
    assert blocks.read == 2 * 20 + 1


def embedded(id: str, numbers: list[float], state: State = State.OK) -> Embedded:
    return Embedded(id, "d", state, np.array(numbers, dtype="<f4").tobytes(), "", "k")


def test_blocks_leave_out_what_has_no_vector_or_is_unknown() -> None:
    rows = [embedded("a", [1, 2]), embedded("b", [], State.FAILED), embedded("c", [3, 4]), embedded("d", [5, 6])]
    blocks = VectorBlocks([*rows, embedded("stranger", [7, 8])], {"a", "b", "c", "d"}, block_rows=2)
    for _ in range(2):
        assert [block.tolist() for block in blocks] == [[[1, 2], [3, 4]], [[5, 6]]]
        assert blocks.ids == ["a", "c", "d"]
