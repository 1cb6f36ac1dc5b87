"""Spenders in other processes stop by their own clock, however late the driver's words arrive."""

import pickle
from math import inf
from pathlib import Path

import pytest

from hab_ray.errors import LeaseLost, LeaseStale
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import LeaseWatch
from hab_ray.storage.lease.watches import RemoteLeaseCheck, RenewalAge, awake_clock, until_held
from tests.storage.conftest import Clock

LOST_S = 20.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(clock: Clock) -> RemoteLeaseCheck:
    return RemoteLeaseCheck(3, clock, LOST_S)


def test_nothing_is_spent_before_anything_was_heard(watch: RemoteLeaseCheck) -> None:
    assert watch.hear(None) == 100.0
    with pytest.raises(LeaseStale, match="epoch 3"):
        watch.check()


def test_spending_ends_20_s_after_the_renewal_began_by_the_own_clock(watch: RemoteLeaseCheck, clock: Clock) -> None:
    stamp = watch.hear(None)
    clock.now += 2
    watch.hear(RenewalAge(5.0, stamp))
    clock.now = 100 - 5 + LOST_S
    watch.check()
    clock.now += 0.1
    with pytest.raises(LeaseStale):
        watch.check()
    watch.hear(RenewalAge(0.0, watch.hear(None)))
    watch.check()


def test_a_message_that_was_under_way_for_a_minute_revives_nobody(watch: RemoteLeaseCheck, clock: Clock) -> None:
    """The age was true when it was sent; a taker may have the store by now."""
    stamp = watch.hear(None)
    clock.now += 60
    watch.hear(RenewalAge(1.0, stamp))
    with pytest.raises(LeaseStale):
        watch.check()


def test_older_news_shorten_nothing(watch: RemoteLeaseCheck, clock: Clock) -> None:
    watch.hear(RenewalAge(1.0, watch.hear(None)))
    watch.hear(RenewalAge(9.0, 100.0))
    clock.now = 119.0
    watch.check()
    clock.now = 119.1
    with pytest.raises(LeaseStale):
        watch.check()


def test_a_stamp_of_another_clock_revives_nobody(watch: RemoteLeaseCheck, clock: Clock) -> None:
    """Ray starts an actor anew on a machine that has been up for a day less; the driver still has the old stamp."""
    clock.now = 100.0
    watch.hear(RenewalAge(1.0, 86_500.0))
    with pytest.raises(LeaseStale):
        watch.check()
    watch.hear(RenewalAge(1.0, 100.0))
    watch.check()


def test_a_lease_that_is_lost_ends_spending_for_good(watch: RemoteLeaseCheck) -> None:
    for age_s in (1.0, inf, 0.0):
        watch.hear(RenewalAge(age_s, 100.0))
    with pytest.raises(LeaseLost) as lost:
        watch.check()
    assert not isinstance(lost.value, LeaseStale)


def test_both_kinds_are_made_in_other_processes(tmp_path: Path) -> None:
    folder = open_folder(Location.of(tmp_path))
    for unused in (RemoteLeaseCheck(1, awake_clock, LOST_S), LeaseWatch(folder, 1, awake_clock)):
        watch = pickle.loads(pickle.dumps(unused))
        assert awake_clock() - 1 < watch.hear(None) <= awake_clock()
        with pytest.raises(LeaseLost):
            watch.check()


async def test_who_waits_goes_on_when_the_lease_is_held_and_ends_when_it_is_lost() -> None:
    answers = [LeaseStale("stale"), None, LeaseStale("stale"), LeaseLost("lost")]

    def check() -> None:
        answer = answers.pop(0)
        if answer:
            raise answer

    await until_held(check)
    assert len(answers) == 2
    with pytest.raises(LeaseLost, match="lost"):
        await until_held(check)
