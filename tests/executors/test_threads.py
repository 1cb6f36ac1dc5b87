"""Threads that work on blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from hab_ray.executors.threads import ThreadWorkers
from hab_ray.stages.blocks import Block

WITHIN_S = 20.0


def blocks(count: int) -> Iterator[Block]:
    return (np.full((2, 2), n, dtype=np.float32) for n in range(count))


def test_results_come_in_the_order_of_the_blocks_with_what_is_shared() -> None:
    assert list(ThreadWorkers(3).map(lambda block, add: int(block[0, 0]) + add, blocks(20), 5)) == list(range(5, 25))
    assert list(ThreadWorkers().map(lambda block: block, blocks(0))) == []


def test_as_many_blocks_are_worked_on_at_once_as_there_are_threads() -> None:
    """Each block waits until three are being worked on: with fewer threads none would be done."""
    together = threading.Barrier(3)
    assert list(ThreadWorkers(3).map(lambda block: together.wait(WITHIN_S) >= 0, blocks(6))) == [True] * 6


def test_blocks_are_read_no_faster_than_they_are_worked_on() -> None:
    read: list[int] = []
    coming = (read.append(n) or block for n, block in enumerate(blocks(100)))  # type: ignore[func-returns-value]
    results = ThreadWorkers(2).map(np.sum, coming)
    next(results)
    assert len(read) == 3


def test_each_block_gets_one_blas_thread() -> None:
    def threads(block: Block) -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(limits=2, user_api="blas"):
        assert list(ThreadWorkers(2).map(threads, blocks(3))) == [{1}] * 3
        assert threads(np.zeros((1, 1), dtype=np.float32)) == {2}


def test_an_error_ends_the_work() -> None:
    def fail(block: Block) -> None:
        raise ValueError(f"block {block[0, 0]:.0f}")

    with pytest.raises(ValueError, match="block 0"):
        list(ThreadWorkers(2).map(fail, blocks(5)))
