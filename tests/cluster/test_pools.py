"""Pools of lanes as a driver opens them, on a real Ray."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray
from ray.exceptions import RayActorError

from hab_ray.calls import ChatCall, Message, Params, Role, to_json
from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import ModelEntry, ProviderEntry
from hab_ray.cluster.lanes import LaneSetup
from hab_ray.cluster.pools import Placement, Pool
from hab_ray.engine.online.opening import AccountSetup
from hab_ray.executors.pending import JOB_COLUMNS, Share
from hab_ray.executors.protocol import CountersRead, DispatchEnded, Event, WorkerReplaced
from hab_ray.executors.provider_engine import EngineReport
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import LeaseWatch, LocalLease
from hab_ray.storage.lease.watches import awake_clock
from tests.conftest import Vendors

pytestmark = pytest.mark.usefixtures("ray_address")
CALLS, PAUSE_S = 60, 0.5


@pytest.fixture
def setup(tmp_path: Path) -> Callable[[str], LaneSetup]:
    """The setup of the lanes for an endpoint."""
    lease = LocalLease.acquire(Location.of(tmp_path), Location("runs/x"), datetime.now(UTC))

    def of(url: str) -> LaneSetup:
        account = AccountSetup(
            provider="one",
            entry=ProviderEntry(kind="openai"),
            url=url,
            models={"m": ModelEntry(provider="one", wire="m", price=UsdPrice(input=0))},
            store=Location.of(tmp_path),
            epoch=lease.epoch,
        )
        return LaneSetup(
            account, LeaseWatch(open_folder(account.store), lease.epoch, awake_clock), wait_s=0.0, budget=None
        )

    return of


@pytest.fixture
def lanes() -> list[Any]:
    """The lanes that pools have started."""
    return []


@pytest.fixture
def waits() -> list[float]:
    """How many seconds each of them waits before it sends."""
    return []


@pytest.fixture
def pool(setup: Callable[[str], LaneSetup], lanes: list[Any], waits: list[float]) -> Iterator[Callable[..., Pool]]:
    """Makes pools, whose lanes end with the test."""

    def start(given: LaneSetup) -> Any:
        waits.append(given.wait_s)
        lanes.append(Placement(lost_s=0.0).start_lane(given, None))
        return lanes[-1]

    yield lambda url, size: Pool(setup(url), size, start, lambda: 0.0, PAUSE_S)
    for lane in lanes:
        ray.kill(lane)


def calls(share: Share, word: str) -> ray.data.Dataset:
    """A worker's share of some calls, of which each is there twice; `word` makes them unlike others."""
    made = [
        ChatCall("one", "m", None, "Answer briefly.", (Message(Role.USER, f"{word} {n // 2}"),), Params(100))
        for n in range(2 * CALLS)
    ]
    columns = [
        [0] * len(made),
        [str(n) for n in range(len(made))],
        pa.nulls(len(made), pa.int64()),
        [call.key for call in made],
        *zip(*map(to_json, made), strict=True),
    ]
    return ray.data.from_arrow(share.of(pa.table(columns, names=list(JOB_COLUMNS))))


def events_until(pool: Pool, is_over: Callable[[list[Event]], bool]) -> list[Event]:
    events: list[Event] = []
    ends_at = time.monotonic() + 300
    while not is_over(events):
        assert time.monotonic() < ends_at, events
        events += pool.poll()
        time.sleep(0.2)
    return events


def has_ended(events: list[Event]) -> bool:
    return any(isinstance(event, DispatchEnded) for event in events)


def newest(events: list[Event]) -> CountersRead:
    return [event for event in events if isinstance(event, CountersRead)][-1]


def test_lanes_that_nobody_used_are_not_waited_for_and_end(pool: Callable[..., Pool], lanes: list[Any]) -> None:
    unused = pool("http://127.0.0.1:9/v1", 2)
    assert not list(unused.poll()) and not unused.end()
    for lane in lanes:
        with pytest.raises(RayActorError):
            ray.get(lane.report.remote(), timeout=30)


def test_lanes_share_calls_ask_equal_ones_once_and_one_that_dies_is_replaced_while_the_other_goes_on(
    pool: Callable[..., Pool], waits: list[float], vendor: Vendors
) -> None:
    sim = vendor(latency={"kind": "fixed", "value_s": 3.0})
    two = pool(f"{sim.url}/x/one/v1", 2)
    two.complete(7, lambda lane, share: lane.complete.remote(calls(share, "First")))
    events = events_until(two, has_ended)
    counted = newest(events).counters
    assert (counted.finished[0], counted.calls) == (2 * CALLS, CALLS)
    assert sim.meter()["billed"] == CALLS
    assert [event for event in events if isinstance(event, DispatchEnded)] == [DispatchEnded(7)]
    lanes = []

    def begin(lane: Any, share: Share) -> Any:
        lanes.append(lane)
        return lane.complete.remote(calls(share, "Second"))

    def is_busy(_: list[Event]) -> bool:
        report: EngineReport = ray.get(lanes[0].report.remote(), timeout=120)
        return report.counters.in_flight["m"] > 0

    two.complete(1, begin)
    events_until(two, is_busy)
    assert newest(list(two.poll())).counters.in_flight["m"] > 0
    ray.kill(lanes[0])
    events = events_until(two, has_ended)
    assert [event.channel for event in events if isinstance(event, WorkerReplaced)] == [two.channel]
    assert waits == [0.0, 0.0, PAUSE_S]
    lost = 4 * CALLS - newest(events).counters.finished[0]
    assert 0 < lost < 2 * CALLS and newest(events).counters.cut["m"] > 0
    two.complete(2, lambda lane, share: lane.complete.remote(calls(share, "Second")))
    events = events_until(two, has_ended)
    assert newest(events).counters.finished[0] == 6 * CALLS - lost
    assert sim.meter()["billed"] <= 2 * CALLS + lost / 2
