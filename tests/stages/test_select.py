"""Choosing picks what scikit-learn picks, and says so where there is little to pick from; blocks pick as diversely."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from hab_ray.config.sections import Select
from hab_ray.errors import ConfigError
from hab_ray.rows import Candidate, ChosenTest, Embedded, State, id_of_test
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Computed, Rows
from hab_ray.stages.method.select import MANY, SelectStage, seed_tests
from hab_ray.stages.selection import picking
from hab_ray.stages.selection.picking import (
    Block,
    Picks,
    VectorBlocks,
    clusters_of_many,
    pick,
    pick_in_blocks,
    principal_axes,
)
from tests.stages.conftest import candidates, embedded, selecting
from tests.stages.judging import DIMENSION

pytestmark = pytest.mark.usefixtures("one_blas_thread")
ROOT = Path(__file__).parent.parent.parent


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


def picked_by_sklearn(vectors: NDArray[np.float64], tests: int) -> list[int]:
    """Of equally near members, up to 1e-9 of the largest coordinate of a centre, the first."""
    points = PCA(min(50, *vectors.shape), random_state=42).fit_transform(vectors)
    fitted = KMeans(tests, random_state=42).fit(points)
    picked = []
    for cluster, center in enumerate(fitted.cluster_centers_):
        members = np.flatnonzero(fitted.labels_ == cluster)
        distances = np.linalg.norm(points[members] - center, axis=1)
        near = distances <= distances.min() + 1e-9 * np.abs(fitted.cluster_centers_).max()
        picked.append(int(members[near.argmax()]))
    return sorted(picked)


@pytest.mark.parametrize(("count", "size", "tests"), [(600, 128, 60), (1500, 256, 500), (61, 128, 60)])
def test_the_picks_are_those_of_sklearn(count: int, size: int, tests: int) -> None:
    vectors = cloud(count, size)
    picks = pick(vectors, selecting(tests))
    expected = picked_by_sklearn(vectors, tests)
    assert [row for row, _ in picks.rows] == expected
    assert sorted(cluster for _, cluster in picks.rows) == list(range(tests))
    assert picks.note == ""


def lattice(size: int) -> NDArray[np.float64]:
    """Points on a grid of four axes, most of them equally far from several others."""
    return np.array(list(product(range(size), repeat=4)), dtype=np.float64)


@pytest.mark.parametrize(
    ("vectors", "tests"),
    [(cloud(400, 64), 200), (np.repeat(cloud(100, 64), 3, axis=0), 60), (lattice(4), 60), (lattice(3), 40)],
    ids=["clusters of two", "duplicates", "a lattice", "a small lattice"],
)
def test_of_equally_near_members_the_first_is_picked(vectors: NDArray[np.float64], tests: int) -> None:
    picks = pick(vectors, selecting(tests))
    assert [row for row, _ in picks.rows] == picked_by_sklearn(vectors, tests)


def test_a_cluster_of_two_is_decided_by_the_order_and_not_by_rounding() -> None:
    pairs = cloud(60, 32) * 100
    vectors = np.concatenate([pairs, pairs + cloud(60, 32)[::-1]])
    picks = pick(vectors, selecting(60, components=32))
    turned = pick(vectors @ np.linalg.qr(cloud(32, 32))[0], selecting(60, components=32))
    assert [row for row, _ in picks.rows] == [row for row, _ in turned.rows] == list(range(60))


def test_fewer_candidates_than_tests_are_all_taken_and_said() -> None:
    picks = pick(cloud(5, 16), selecting(8))
    assert picks.rows == ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4))
    assert picks.note == "5 distinct candidates for 8 tests: all are taken"
    assert pick(cloud(1, 16), selecting(8)).rows == ((0, 0),)
    assert pick(cloud(8, 16), selecting(8)).rows == tuple((n, n) for n in range(8))


def test_of_equal_vectors_only_the_first_is_taken() -> None:
    vectors = np.repeat(cloud(4, 16), 3, axis=0)
    picks = pick(vectors, selecting(6))
    assert picks.rows == ((0, 0), (3, 1), (6, 2), (9, 3))
    assert "4 distinct" in picks.note
    rows = [row for row, _ in pick(np.repeat(cloud(40, 16), 2, axis=0), selecting(10)).rows]
    assert len({row // 2 for row in rows}) == len(rows) == 10


def test_fewer_vectors_than_components_are_no_problem() -> None:
    assert len(pick(cloud(20, 16), selecting(7)).rows) == 7
    assert len(pick(cloud(20, 128), selecting(7)).rows) == 7


def with_vectors(rows: list[Candidate], size: int) -> list[Embedded]:
    return [embedded(row.id, vector) for row, vector in zip(rows, cloud(len(rows), size), strict=True)]


def numbers(tests: Sequence[ChosenTest]) -> list[int]:
    """The candidates that became tests, as numbered by `candidates`."""
    return sorted(int(test.prompt.split()[-1]) for test in tests)


def choose(rubric: Rubric, rows: list[Candidate], vectors: list[Embedded], settings: Select) -> Computed[ChosenTest]:
    return SelectStage(rubric, settings).compute(Rows({Candidate: rows, Embedded: vectors}))


def test_the_order_of_arrival_does_not_matter(rubrics: dict[str, Rubric]) -> None:
    rows = candidates(80)
    vectors = with_vectors(rows, 32)
    chosen = choose(rubrics[DIMENSION], rows, vectors, selecting(9))
    again = choose(rubrics[DIMENSION], rows[::-1], vectors[40:] + vectors[:40], selecting(9))
    assert chosen == again
    assert chosen.note == ""
    tests = chosen.rows
    assert [test.id for test in tests] == sorted(test.id for test in tests)
    assert {test.prompt for test in tests} <= {row.prompt for row in rows}
    assert {test.system for test in tests} == {rubrics[DIMENSION].system}


def test_candidates_without_a_vector_are_left_out_and_none_is_said(rubrics: dict[str, Rubric]) -> None:
    rows = candidates(3)
    vectors = with_vectors(rows, 8)
    vectors[1] = replace(vectors[1], state=State.FAILED, vector=b"")
    tests = choose(rubrics[DIMENSION], rows, vectors, selecting(9)).rows
    assert numbers(tests) == [0, 2]
    assert choose(rubrics[DIMENSION], rows[:1], vectors, selecting(9)).rows[0].cluster == 0
    none = choose(rubrics[DIMENSION], rows, [], selecting(9))
    assert none.rows == []
    assert f"no candidate of {DIMENSION} passed" in none.note and "(candidates: 3 ok; vectors: none)" in none.note


@pytest.mark.parametrize("min_in_blocks", [1, MANY])
def test_candidates_without_a_vector_are_counted_by_reason(rubrics: dict[str, Rubric], min_in_blocks: int) -> None:
    rows = candidates(9)
    vectors = with_vectors(rows, 8)
    for number, (state, reason) in enumerate([*[(State.FAILED, "too_long: 9000\ntokens")] * 3, (State.FAILED, "x: y")]):
        vectors[number] = replace(vectors[number], state=state, reason=reason, vector=b"")
    vectors[4] = replace(vectors[4], state=State.UNREADABLE, reason="", vector=b"")
    stage = SelectStage(rubrics[DIMENSION], selecting(9), min_in_blocks)
    some = stage.compute(Rows({Candidate: rows, Embedded: vectors}))
    lost = "4 failed (too_long: 9000 tokens), 1 unreadable"
    all_taken = "4 distinct candidates for 9 tests: all are taken"
    assert some.note == f"{all_taken}; left out for want of a vector: {lost}"
    rejected = [replace(row, state=State.REJECTED, reason="a duplicate") for row in rows[5:]]
    none = stage.compute(Rows({Candidate: [*rows[:5], *rejected], Embedded: vectors[:5]}))
    assert none.rows == [] and f"(candidates: 5 ok, 4 rejected (a duplicate); vectors: {lost})" in none.note
    assert all(remedy in none.note for remedy in ("`accept_substitutes: true`", "--retry-failed", "another `run:`"))


def test_only_many_candidates_are_chosen_in_blocks(rubrics: dict[str, Rubric]) -> None:
    """Below the threshold the picks are scikit-learn's own; there and above they are those of the blocks."""
    assert MANY == 50_000
    rows = candidates(200)
    source = Rows({Candidate: rows[::-1], Embedded: with_vectors(rows, 64)})
    tests = {
        many: SelectStage(rubrics[DIMENSION], selecting(20), many, block_rows=64).compute(source).rows
        for many in (199, 200, 201)
    }
    assert numbers(tests[201]) == picked_by_sklearn(cloud(200, 64), 20)
    assert tests[199] == tests[200] != tests[201]
    assert [test.id for test in tests[200]] == sorted({test.id for test in tests[200]}) and len(tests[200]) == 20


def test_in_blocks_rows_without_a_vector_are_left_out_and_none_is_said(rubrics: dict[str, Rubric]) -> None:
    rows = candidates(40)
    vectors = with_vectors(rows, 8)
    vectors[1] = replace(vectors[1], state=State.FAILED, vector=b"")
    stage = SelectStage(rubrics[DIMENSION], selecting(45), 10, block_rows=7)
    chosen = stage.compute(Rows({Candidate: rows[:30], Embedded: vectors}))
    assert numbers(chosen.rows) == [n for n in range(30) if n != 1]
    assert "29 distinct" in chosen.note
    none = stage.compute(Rows({Candidate: [], Embedded: vectors}))
    assert (none.rows, "no candidate" in none.note) == ([], True)


def test_seed_queries_become_tests(rubrics: dict[str, Rubric]) -> None:
    for rubric in rubrics.values():
        tests = seed_tests(rubric)
        assert [test.prompt for test in tests] == [seed.prompt for seed in rubric.seeds]
        assert all(test.id == id_of_test(rubric.id, test.prompt, test.context) for test in tests)
        assert len({test.id for test in tests}) == len(tests)
        assert all(bool(test.context) == (rubric.context is not None) for test in tests)
        assert {(test.dimension, test.system, test.cluster) for test in tests} == {(rubric.id, rubric.system, None)}


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
    blocks = VectorBlocks([*rows, embedded("stranger", [7, 8])], {"a", "b", "c", "d"}, "m", block_rows=2)
    for _ in range(2):
        assert [block.tolist() for block in blocks] == [[[1, 2], [3, 4]], [[5, 6]]]
        assert blocks.ids == ["a", "c", "d"]


@pytest.mark.parametrize("min_in_blocks", [1, MANY])
def test_vectors_of_different_lengths_are_refused(rubrics: dict[str, Rubric], min_in_blocks: int) -> None:
    known = candidates(6)
    rows = [embedded(known[0].id, [], State.FAILED), *(embedded(one.id, [1, 2, 3]) for one in known[1:5])]
    rows += [embedded("stranger", [1]), embedded(known[5].id, [1, 2])]
    stage = SelectStage(rubrics[DIMENSION], selecting(4), min_in_blocks, block_rows=4)
    says = f"embedding: m gave 3 numbers for candidate {known[1].id} and 2 for {known[5].id}, .*; name another"
    with pytest.raises(ConfigError, match=says):
        stage.compute(Rows({Candidate: known, Embedded: rows}))


THREADS = """
import sys
import numpy as np
from threadpoolctl import threadpool_info
from hab_ray.stages.selection.picking import pick, pick_in_blocks

class Settings:
    seed, components = 1, 4

    @property
    def tests(self):
        if "sklearn" in sys.modules:
            print(*{library["num_threads"] for library in threadpool_info()})
        return 3

vectors = np.random.default_rng(1).normal(size=(20, 8))
PICK
"""


@pytest.mark.parametrize("picks", ["pick(vectors, Settings())", "pick_in_blocks([vectors], Settings())"])
def test_one_thread_chooses_in_a_process_that_has_not_chosen_before(picks: str) -> None:
    """A limit binds the libraries that are loaded, and the first choice loads them."""
    code = THREADS.replace("PICK", picks)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and set(done.stdout.split()) == {"1"}, done


def test_choices_of_two_runs_in_one_process_come_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of one would lift the other's limit to one thread."""
    both, met = threading.Barrier(2), list[int]()

    def nearest(*_: object) -> NDArray[np.int64]:
        with suppress(threading.BrokenBarrierError):
            met.append(both.wait(0.5))
        return np.arange(5)

    monkeypatch.setattr(picking, "nearest_rows", nearest)
    vectors, settings = cloud(20, 8), selecting(5, components=4)
    with ThreadPoolExecutor(2) as threads:
        choices = [
            threads.submit(pick, vectors, settings),
            threads.submit(pick_in_blocks, in_blocks(vectors, 20), settings),
        ]
    assert [len(choice.result().rows) for choice in choices] == [5, 5] and not met
