"""Shards settled on a real Ray."""

import threading
import time
from pathlib import Path
from typing import cast

import pytest
import ray

from hab_ray.cluster.tasks import Tasks
from hab_ray.errors import EngineBroke
from hab_ray.executors.protocol import Event, Settle, ShardSettled
from hab_ray.executors.settling import WorkerContext
from hab_ray.location import Location
from hab_ray.work import Shard
from tests.executors.conftest import site_of
from tests.odd_errors import OddError

pytestmark = pytest.mark.usefixtures("ray_address")
WITHIN_S = 300.0


def test_shards_are_settled_while_readers_hold_every_cpu(tmp_path: Path) -> None:
    """A dataset that a lane reads slowly keeps its CPUs for as long as the lane works."""
    released = tmp_path / "released"

    def hold() -> None:
        while not released.exists():
            time.sleep(0.05)

    site = site_of(tmp_path)
    shards = [shard for shard in site.work.shards() if shard.stage == "respond"]
    cpus = int(ray.available_resources().get("CPU", 0))  # type: ignore[no-untyped-call]
    holding = [ray.remote(num_cpus=1)(hold).remote() for _ in range(cpus)]
    woken = threading.Event()
    tasks = Tasks(site, woken.set)
    for number, shard in enumerate(shards):
        tasks.settle(Settle(number, number, shard))
    events: list[Event] = []
    end = time.monotonic() + WITHIN_S
    while len(events) < len(shards):
        assert time.monotonic() < end, "nothing is settled while all CPUs are held"
        woken.wait(0.2)
        events += tasks.poll()
    assert all(isinstance(event, ShardSettled) and event.open for event in events) and woken.is_set()
    released.touch()
    ray.get(holding, timeout=30)


class BrokenSite:
    """Raises, where a worker looks for the store, an error that the driver cannot read."""

    failures_since = 0

    @property
    def store(self) -> Location:
        raise OddError("the index", 7)


def test_an_error_that_cannot_be_sent_from_a_worker_is_quoted() -> None:
    woken = threading.Event()
    tasks = Tasks(cast(WorkerContext, BrokenSite()), woken.set)
    tasks.settle(Settle(1, 1, Shard("respond", "lab/a", "one")))
    assert woken.wait(WITHIN_S)
    with pytest.raises(EngineBroke, match="OddError: the index failed with 7"):
        list(tasks.poll())
