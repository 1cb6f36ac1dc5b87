"""Blocks worked on by tasks of a real Ray."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from threadpoolctl import threadpool_info, threadpool_limits

from hab_ray.cluster.blocks import RayWorkers
from hab_ray.errors import EngineBroke
from hab_ray.executors.threads import ThreadWorkers
from hab_ray.rows import Candidate, ChosenTest, Embedded, State
from hab_ray.rubric import load_rubrics
from hab_ray.sections import Select
from hab_ray.stages.base import Rows
from hab_ray.stages.blocks import Block
from hab_ray.stages.method.select import SelectStage
from tests.clouds import cloud, in_blocks

pytestmark = [pytest.mark.usefixtures("ray_address"), pytest.mark.timeout(200)]
DIMENSION = "ask_clarifying_questions"


def threads_of(block: Block) -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def sum_and_die_once(block: Block, mark: str, factor: int) -> float:
    """The sum of a block, unless this is the first time that anybody asks."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return factor * float(block.sum())
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def die(block: Block) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_is_replaced_and_one_that_always_dies_is_named(tmp_path: Path) -> None:
    workers = RayWorkers()
    blocks = in_blocks(cloud(40, 4), 10)
    expected = [3 * float(block.sum()) for block in blocks]
    held = [workers.hold(block) for block in blocks]
    assert list(workers.map(sum_and_die_once, held, str(tmp_path / "mark"), 3)) == expected
    assert list(workers.map(sum_and_die_once, iter(blocks), str(tmp_path / "mark"), 3)) == expected
    assert list(workers.map(threads_of, blocks)) == [{1}] * 4
    with pytest.raises(EngineBroke, match="a worker that chooses tests"):
        list(workers.map(die, blocks[:1]))


def test_blocks_are_read_no_faster_than_they_are_worked_on() -> None:
    read: list[int] = []

    def coming() -> Iterator[Block]:
        for number in range(100):
            read.append(number)
            yield np.zeros((1, 1), dtype=np.float32)

    results = RayWorkers().map(threads_of, coming())
    next(results)
    assert len(read) <= ray.cluster_resources()["CPU"] + 1  # type: ignore[no-untyped-call]


def chosen_on_ray(stage: SelectStage, rows: Rows) -> list[ChosenTest]:
    """What a stage chooses in a task, as executors run it."""

    def compute() -> Sequence[ChosenTest]:
        with threadpool_limits(limits=1):
            return stage.compute(rows, RayWorkers()).rows

    ref: Any = ray.remote(num_cpus=0)(compute).remote()
    return list(ray.get(ref, timeout=100))


def test_the_tests_chosen_on_ray_are_those_chosen_in_threads() -> None:
    vectors = cloud(900, 48)
    candidates = [Candidate(f"c{n:03d}", DIMENSION, State.OK, f"prompt {n}", "", "", "", "k") for n in range(900)]
    pairs = zip(candidates, vectors.astype("<f4"), strict=True)
    embedded = [Embedded(row.id, DIMENSION, State.OK, vector.tobytes(), "", "k") for row, vector in pairs]
    rows = Rows({Candidate: candidates, Embedded: embedded})
    stage = SelectStage(load_rubrics()[DIMENSION], Select(embedding="m", tests=30), many=900, block_rows=128)
    with threadpool_limits(limits=1):
        expected = list(stage.compute(rows, ThreadWorkers()).rows)
    assert len(expected) == 30
    assert chosen_on_ray(stage, rows) == expected
