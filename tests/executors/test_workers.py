"""Settling in a thread, computing in a process of its own."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hab_ray.errors import DamagedFile, EngineBroke
from hab_ray.executors.protocol import Compute, Event, ExecutorDied, RowsComputed, Settle, ShardSettled
from hab_ray.executors.settling import WorkerContext
from hab_ray.executors.workers import LocalWorkers
from hab_ray.storage.replies.store import Store
from hab_ray.work import Shard
from tests.executors.conftest import begun
from tests.odd_errors import OddError
from tests.sweep.conftest import MADE, ONE, work_of

WITHIN_S = 60.0


def first_events(workers: LocalWorkers, woken: threading.Event, count: int = 1) -> list[Event]:
    """What the workers say first, after they have woken the driver."""
    events: list[Event] = []
    for _ in range(int(WITHIN_S / 0.05)):
        events += workers.poll()
        if len(events) >= count:
            return events
        woken.wait(0.05)
    raise AssertionError("no event came")


def test_a_shard_is_settled_beside_the_driver_which_is_woken(site: WorkerContext) -> None:
    woken = threading.Event()
    workers = LocalWorkers(site, woken.set)
    workers.settle(Settle(1, 0, Shard("respond", "lab/a", ONE)))
    (event,) = first_events(workers, woken)
    assert isinstance(event, ShardSettled) and event.open > 0 and woken.is_set()
    workers.close()


def test_a_file_that_cannot_be_read_ends_the_run(site: WorkerContext) -> None:
    (site.work.run_path.path / f"tests/{ONE}.parquet").write_bytes(b"not a table")
    woken = threading.Event()
    workers = LocalWorkers(site, woken.set)
    workers.settle(Settle(1, 0, Shard("respond", "lab/a", ONE)))
    (event,) = first_events(workers, woken)
    assert isinstance(event, ExecutorDied) and isinstance(event.error, DamagedFile)


class BrokenSite(WorkerContext):
    """Raises an error that the driver cannot read."""

    def open_store(self) -> Store:
        raise OddError("the index", 7)


@pytest.mark.integration
def test_an_error_that_cannot_be_sent_from_a_process_is_quoted(tmp_path: Path) -> None:
    site = begun(work_of(tmp_path, store=tmp_path / "store", **MADE), BrokenSite)
    workers = LocalWorkers(site, lambda: None)
    workers.compute(Compute(5, 0, Shard("choose", "", ONE)))
    (event,) = first_events(workers, threading.Event())
    assert isinstance(event, ExecutorDied) and isinstance(event.error, EngineBroke)
    assert "OddError: the index failed with 7" in str(event.error)
    workers.close()


@pytest.mark.integration
def test_tests_are_chosen_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Nothing was generated, so none can be chosen: the note says it, and the empty view waits to be published.

    Of four orders two wait until a process is free.
    """
    site = begun(work_of(tmp_path, store=tmp_path / "store", **MADE))
    workers = LocalWorkers(site, lambda: None)
    for number in range(5, 9):
        workers.compute(Compute(number, 0, Shard("choose", "", ONE)))
    events = first_events(workers, threading.Event(), 4)
    assert {event.compute.order for event in events if isinstance(event, RowsComputed)} == {5, 6, 7, 8}
    assert all(isinstance(event, RowsComputed) and "no candidate" in event.note for event in events)
    site.pending.publish(5, f"tests/{ONE}.parquet")
    assert site.work.run.count(f"tests/{ONE}.parquet") == 0
    workers.close()
