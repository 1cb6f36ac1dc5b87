"""Settling in a thread, computing in another."""

import threading
from pathlib import Path

import pytest

from hab_ray.errors import DamagedFile
from hab_ray.executors.local import LocalWorkers
from hab_ray.executors.protocol import Compute, Event, ExecutorDied, RowsComputed, Settle, ShardSettled
from hab_ray.executors.settling import WorkerContext
from hab_ray.storage.replies.store import Store
from hab_ray.work import Shard
from tests.conftest import until
from tests.executors.conftest import begun
from tests.sweep.conftest import MADE, ONE, work_of

WITHIN_S = 60.0


def first_events(workers: LocalWorkers, count: int = 1) -> list[Event]:
    """What the workers say first."""
    events: list[Event] = []

    def are_there() -> bool:
        events.extend(workers.poll())
        return len(events) >= count

    until(are_there)
    return events


def test_a_shard_is_settled_beside_the_driver_which_is_woken(site: WorkerContext) -> None:
    woken = threading.Event()
    workers = LocalWorkers(site, woken.set)
    workers.settle(Settle(1, 0, Shard("respond", "lab/a", ONE)))
    (event,) = first_events(workers)
    assert isinstance(event, ShardSettled) and event.open > 0 and woken.wait(WITHIN_S)
    workers.close()


def test_a_file_that_cannot_be_read_ends_the_run(site: WorkerContext) -> None:
    (site.work.run_path.path / f"tests/{ONE}.parquet").write_bytes(b"not a table")
    woken = threading.Event()
    workers = LocalWorkers(site, woken.set)
    workers.settle(Settle(1, 0, Shard("respond", "lab/a", ONE)))
    (event,) = first_events(workers)
    assert isinstance(event, ExecutorDied) and isinstance(event.error, DamagedFile)


class BrokenSite(WorkerContext):
    """A run whose store cannot be read."""

    def open_store(self) -> Store:
        raise DamagedFile("the index")


def test_a_store_that_cannot_be_read_ends_the_run(tmp_path: Path) -> None:
    site = begun(work_of(tmp_path, store=tmp_path / "store", **MADE), BrokenSite)
    woken = threading.Event()
    workers = LocalWorkers(site, woken.set)
    workers.compute(Compute(5, 0, Shard("choose", "", ONE)))
    (event,) = first_events(workers)
    assert isinstance(event, ExecutorDied) and isinstance(event.error, DamagedFile)


def test_tests_are_chosen_beside_the_driver_which_is_woken(tmp_path: Path) -> None:
    """Nothing was generated, so none can be chosen: the note says it, and the empty view waits to be published."""
    site = begun(work_of(tmp_path, store=tmp_path / "store", **MADE))
    woken = threading.Event()
    workers = LocalWorkers(site, woken.set)
    for number in range(5, 9):
        workers.compute(Compute(number, 0, Shard("choose", "", ONE)))
    events = first_events(workers, 4)
    assert {event.compute.order for event in events if isinstance(event, RowsComputed)} == {5, 6, 7, 8}
    assert all(isinstance(event, RowsComputed) and "no candidate" in event.note for event in events)
    assert woken.wait(WITHIN_S)
    site.pending.publish(5, f"tests/{ONE}.parquet")
    assert site.work.run.count(f"tests/{ONE}.parquet") == 0
    workers.close()


def test_a_long_choice_holds_up_no_settling_and_is_waited_for(
    site: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ended amid a choice would abort."""
    started, chosen = threading.Event(), threading.Event()

    def choose(*_: object) -> None:
        started.set()
        assert chosen.wait(WITHIN_S)

    monkeypatch.setattr("hab_ray.executors.local.compute_rows", choose)
    workers = LocalWorkers(site, lambda: None)
    workers.compute(Compute(1, 0, Shard("choose", "", ONE)))
    workers.settle(Settle(2, 0, Shard("respond", "lab/a", ONE)))
    assert started.wait(WITHIN_S)
    (event,) = first_events(workers)
    assert isinstance(event, ShardSettled)
    closing = threading.Thread(target=workers.close)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive()
    chosen.set()
    closing.join(WITHIN_S)
    assert not closing.is_alive()
