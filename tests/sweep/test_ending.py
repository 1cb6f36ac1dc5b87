"""The end of a run: what is waited for, for how long, and what is written off."""

from collections import Counter
from pathlib import Path

import pytest

from hab_ray.catalog.prices import Mode
from hab_ray.engine.jobs import Counters
from hab_ray.errors import ConfigError
from hab_ray.executors.protocol import Channel, ChannelEnded, CountersRead
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.run import GRACE_S, end_services
from hab_ray.sweep.start import missing_results_reported
from tests.instant import work_of
from tests.sweep.conftest import Clock, FakeService

LANE, BATCHES = Channel("lab", Mode.ONLINE), Channel("lab", Mode.BATCH)
IN_FLIGHT = Counters(in_flight=Counter({"m": 2}), reserved_nanousd=70, spent_nanousd=5)
DONE = Counters(spent_nanousd=60)


def under_way(channel: Channel) -> FakeService:
    service = FakeService()
    service.ending, service.events = [channel], [CountersRead(channel, IN_FLIGHT)]
    return service


def ended(service: FakeService, clock: Clock, problem: Exception | None = None) -> tuple[RunCounters, list[float]]:
    counters, left = RunCounters([], frozenset()), list[float]()

    def report(left_s: float) -> None:
        left.append(left_s)
        if problem:
            raise problem

    end_services([service], counters, 10.0, report, lambda: clock.now, clock.wait)
    return counters, left


@pytest.mark.parametrize("problem", [None, OSError(28, "No space left on device"), ConfigError("[ExpiredToken]")])
def test_the_last_counters_of_a_channel_are_taken_in_without_a_report(problem: Exception | None) -> None:
    service, clock = under_way(LANE), Clock()
    clock.steps[5] = lambda: service.events.extend([CountersRead(LANE, DONE), ChannelEnded(LANE)])
    counters, left = ended(service, clock, problem)
    assert counters.of(LANE) == DONE and service.stopped == [10.0]
    assert left[0] == 10.0 and clock.now < 1.0


def test_a_channel_that_hangs_is_left_behind_and_its_calls_count_as_spent() -> None:
    clock = Clock()
    counters, left = ended(under_way(LANE), clock)
    assert 10.0 + GRACE_S <= clock.now < 10.5 + GRACE_S and left[-1] == 0.0
    assert (counters.of(LANE).spent_nanousd, counters.of(LANE).cut) == (75, Counter({"m": 2}))


def test_open_batches_stay_at_the_vendor_and_are_not_written_off() -> None:
    counters, _ = ended(under_way(BATCHES), Clock())
    assert counters.of(BATCHES).lost_nanousd == 0


def test_a_run_that_was_removed_is_made_again_by_the_same_command_not_by_a_report(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    with pytest.raises(ConfigError) as caught, missing_results_reported(work):
        work.run.require()
    assert caught.value.__notes__ == [
        "the run was removed meanwhile; its replies are stored, so the same `hab run` makes it again"
    ]
