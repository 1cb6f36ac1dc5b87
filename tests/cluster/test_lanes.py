"""Lanes as a driver opens them, on a real Ray."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import ray
from ray.exceptions import RayActorError

from hab_ray.catalog import ModelEntry, ProviderEntry, UsdPrice
from hab_ray.cluster.lanes import Lanes, LaneSetup
from hab_ray.executors.protocol import Channel
from hab_ray.location import Location
from hab_ray.prices import Mode
from hab_ray.storage.lease import LocalLease

pytestmark = pytest.mark.usefixtures("ray_address")
PROVIDERS = ("one", "two", "three")


@pytest.fixture
def setup(tmp_path: Path) -> Callable[[str], LaneSetup]:
    """The setup of a lane that has nothing to call."""
    lease = LocalLease.acquire(Location.of(tmp_path), Location("runs/x"), datetime.now(UTC))

    def of(provider: str) -> LaneSetup:
        return LaneSetup(
            provider=provider,
            entry=ProviderEntry(kind="openai"),
            url="http://127.0.0.1:9/v1",
            models={"m": ModelEntry(provider=provider, wire="m", price=UsdPrice(input=0))},
            store=Location.of(tmp_path),
            epoch=lease.epoch,
            watch=lease.elsewhere,
            failures_since=0,
            not_before=0.0,
            budget=None,
        )

    return of


def until_open(lanes: Lanes, names: tuple[str, ...]) -> None:
    opened = [lanes._kept[name].opened for name in names]
    assert len(ray.wait(opened, num_returns=len(opened), timeout=100)[0]) == len(opened)


@pytest.mark.timeout(120)
def test_lanes_open_beside_one_another_without_being_waited_for(setup: Callable[[str], LaneSetup]) -> None:
    lanes = Lanes()
    for name in PROVIDERS:
        lanes.start(name, setup(name))
    for name in PROVIDERS[:2]:
        lanes.get(name, lambda: pytest.fail("is already set up"))
    assert lanes.snapshots() == {}  # no lane can be open yet, and none was waited for
    until_open(lanes, PROVIDERS)
    assert {channel.provider for channel in lanes.snapshots()} == {"one", "two"}
    unused = lanes._kept["three"].lane
    lanes.close()
    with pytest.raises(RayActorError):
        ray.get(unused.snapshot.remote(), timeout=30)


@pytest.mark.timeout(120)
def test_a_lane_that_was_not_started_is_started_when_it_is_asked_for(setup: Callable[[str], LaneSetup]) -> None:
    lanes = Lanes()
    lanes.get("one", lambda: setup("one"))
    until_open(lanes, ("one",))
    assert list(lanes.snapshots()) == [Channel("one", Mode.ONLINE)]
    lanes.close()
