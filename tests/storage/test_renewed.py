"""A lease that is renewed: what its holder may spend, when it has lost, and what others see of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import pytest

from hab_ray.config.sections import LeaseTimes
from hab_ray.errors import Exit, LeaseLost, LeaseStale, StoreHeld
from hab_ray.location import Location
from hab_ray.storage.folder import LocalFolder, open_folder
from hab_ray.storage.lease.lease import Holder, LocalLease, last_holder, take_epoch
from hab_ray.storage.lease.renewed import Renewals, RenewedLease, first_renewal
from hab_ray.storage.lease.watches import RemoteLeaseCheck
from tests.storage.conftest import Clock

NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
TIMES = LeaseTimes()
QUICK = LeaseTimes(renew_s=0.02, lost_s=5, take_s=10)
OURS, THEIRS = Location("runs/ours"), Location("runs/theirs")


class Flaky(LocalFolder):
    """A folder whose writes are slow, fail before they are done, or are done and not answered."""

    def __init__(self, root: Path, clock: Clock) -> None:
        super().__init__(root)
        self._clock = clock
        self.takes_s = 0.0
        self.away = self.answer_lost = False
        self.before_write: Callable[[], None] = lambda: None

    def put(self, name: str, data: bytes) -> None:
        self._write(super().put, name, data)

    def put_new(self, name: str, data: bytes) -> None:
        self._write(super().put_new, name, data)

    def _write(self, write: Callable[[str, bytes], None], name: str, data: bytes) -> None:
        self._clock.now += self.takes_s
        self.before_write()
        if self.away:
            raise TimeoutError("no answer, and nothing was written")
        write(name, data)
        if self.answer_lost:
            raise TimeoutError("no answer, but it was written")


class Held:
    """A store that a holder took at 1000 s."""

    def __init__(self, root: Path) -> None:
        self.clock = Clock(1000.0)
        self.store, self.folder = Location.of(root), Flaky(root, self.clock)
        holder = Holder.after(None, self.store, OURS, NOW)
        self.holder = replace(holder, renewal=first_renewal(TIMES))
        take_epoch(self.folder, self.store, self.holder)
        self.renewals = Renewals(self.folder, self.store, self.holder, self.clock(), self.clock)

    def at(self, seconds: float) -> None:
        """Have it be so many seconds after the store was taken."""
        self.clock.now = 1000.0 + seconds

    def fails(self) -> None:
        """Have a renewal fail."""
        with pytest.raises(TimeoutError):
            self.renewals.renew()

    def taken_over(self) -> Holder:
        """Another process takes the next epoch."""
        taker = replace(Holder.after(self.holder, self.store, THEIRS, NOW), pid=4711, renewal=first_renewal(TIMES))
        LocalFolder(self.folder.root).put_new(taker.name, taker.record())
        return taker

    def counter(self) -> int:
        """The record's counter as others see it."""
        holder = last_holder(self.folder)
        assert holder and holder.renewal
        return holder.renewal.counter


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path / "store")


def test_each_renewal_changes_counter_and_nonce_and_prolongs(held: Held) -> None:
    seen = set()
    for n in range(10):
        held.at(10.0 * n)
        held.renewals.renew()
        held.renewals.check()
        holder = last_holder(held.folder)
        assert holder and holder.renewal and not holder.released
        seen.add((holder.renewal.counter, holder.renewal.nonce))
        assert replace(holder, renewal=None) == replace(held.holder, renewal=None)
    assert len(seen) == 10 and {counter for counter, _ in seen} == set(range(1, 11))


def test_a_holder_that_cannot_renew_for_15_s_spends_on(held: Held) -> None:
    held.folder.away = True
    for seconds in (10, 12, 15):
        held.at(seconds)
        held.fails()
        held.renewals.check()
    held.folder.away = False
    held.renewals.renew()
    held.at(34.9)
    held.renewals.check()


def test_after_21_s_without_renewal_it_waits_for_a_second_one(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    held.folder.away = True
    held.at(20)
    held.fails()
    held.renewals.check()
    held.at(21)
    with pytest.raises(LeaseStale, match="20 s"):
        held.renewals.check()
    held.folder.away = False
    held.renewals.renew()
    for seconds in (21, 25, 30.9):
        held.at(seconds)
        held.renewals.renew()
        with pytest.raises(LeaseStale):
            held.renewals.check()
    held.at(31)
    held.renewals.renew()
    held.renewals.check()
    [said] = caplog.messages
    assert "not renewed for 21 s" in said and "goes on in 10 s" in said
    assert held.renewals.age_s == 0


def test_two_gaps_in_a_row_are_two_gaps(held: Held) -> None:
    for seconds in (60, 85):
        held.at(seconds)
        held.renewals.renew()
        with pytest.raises(LeaseStale):
            held.renewals.check()
    held.at(95)
    held.renewals.renew()
    held.renewals.check()


def test_whoever_was_taken_over_during_a_gap_has_lost_before_it_spends(held: Held) -> None:
    """The taker saw the old record just before the first renewal after the gap, and writes its epoch just after."""
    held.at(60)
    held.renewals.renew()
    held.taken_over()
    held.at(70)
    with pytest.raises(LeaseLost, match="process 4711"):
        held.renewals.renew()
    with pytest.raises(LeaseLost, match="process 4711") as lost:
        held.renewals.check()
    assert not isinstance(lost.value, LeaseStale) and lost.value.exit is Exit.HELD and held.renewals.age_s == inf


def test_a_stopped_holder_spends_nothing_when_it_is_continued(held: Held) -> None:
    held.taken_over()
    held.at(90)
    with pytest.raises(LeaseStale):
        held.renewals.check()
    with pytest.raises(LeaseLost):
        held.renewals.renew()
    newest = last_holder(held.folder)
    assert newest and (newest.epoch, newest.pid) == (2, 4711)


def test_a_renewal_counts_from_before_its_first_request(held: Held) -> None:
    held.at(10)
    held.folder.takes_s = 9
    held.renewals.renew()
    assert held.renewals.age_s == 9
    held.at(30)
    held.renewals.check()
    held.at(30.1)
    with pytest.raises(LeaseStale):
        held.renewals.check()


def test_a_renewal_that_ends_after_the_lease_was_stale_is_the_first_after_a_gap(held: Held) -> None:
    held.at(10)
    held.folder.takes_s = 10.5
    held.renewals.renew()
    with pytest.raises(LeaseStale):
        held.renewals.check()


def test_a_renewal_without_an_answer_prolongs_nothing_and_harms_nothing(held: Held) -> None:
    held.folder.answer_lost = True
    held.at(10)
    held.fails()
    assert (held.renewals.age_s, held.counter()) == (10, 1)
    held.folder.answer_lost = False
    held.at(11)
    held.renewals.renew()
    assert (held.renewals.age_s, held.counter()) == (0, 2)


@pytest.mark.parametrize("data", [b"{}", b"", b"[1", b"\xff\xfe", b'{"epoch": 1}', None])
def test_a_record_overwritten_with_rubbish_is_lost_at_once(held: Held, data: bytes | None) -> None:
    data = replace(held.holder, epoch=7).record() if data is None else data
    held.folder.put(held.holder.name, data)
    with pytest.raises(LeaseLost, match="deleted or damaged"):
        held.renewals.renew()
    assert held.folder.get(held.holder.name) == data


def test_a_record_of_another_holder_or_a_deleted_one_is_lost_and_not_released(held: Held, tmp_path: Path) -> None:
    other = replace(held.holder, pid=99, renewal=first_renewal(TIMES))
    held.folder.put(held.holder.name, other.record())
    with pytest.raises(LeaseLost, match="process 99"):
        held.renewals.renew()
    held.renewals.release()
    assert last_holder(held.folder) == other
    deleted = Held(tmp_path / "other")
    deleted.folder.delete(deleted.holder.name)
    with pytest.raises(LeaseLost, match="deleted"):
        deleted.renewals.renew()


def test_a_damaged_successor_is_a_successor(held: Held) -> None:
    held.folder.put("lease/000002.json", b"{")
    with pytest.raises(LeaseLost, match=r"000002\.json"):
        held.renewals.renew()


def test_a_released_lease_spends_nothing_and_is_not_written_again(held: Held) -> None:
    held.renewals.release()
    with pytest.raises(LeaseLost, match="given back"):
        held.renewals.check()
    newest = last_holder(held.folder)
    assert newest and newest.released
    held.folder.delete(newest.name)
    held.renewals.release()
    assert last_holder(held.folder) is None


def test_of_two_takers_that_find_the_epoch_free_the_first_to_write_has_it(tmp_path: Path) -> None:
    store, folder = Location.of(tmp_path), Flaky(tmp_path, Clock())
    first = replace(Holder.after(None, store, OURS, NOW), pid=1, renewal=first_renewal(TIMES))
    folder.before_write = lambda: take_epoch(LocalFolder(tmp_path), store, first)
    with pytest.raises(StoreHeld, match="process 1 "):
        take_epoch(folder, store, replace(first, pid=2, renewal=first_renewal(TIMES)))
    assert last_holder(folder) == first


def test_an_epoch_whose_answer_got_lost_is_ours_if_it_was_written(tmp_path: Path) -> None:
    store, folder = Location.of(tmp_path), Flaky(tmp_path, Clock())
    holder = replace(Holder.after(None, store, OURS, NOW), renewal=first_renewal(TIMES))
    folder.answer_lost = True
    take_epoch(folder, store, holder)
    assert last_holder(folder) == holder
    folder.away = True
    later = replace(holder, epoch=2)
    with pytest.raises(TimeoutError):
        take_epoch(folder, store, later)
    taken = replace(later, pid=5, renewal=first_renewal(TIMES))
    LocalFolder(tmp_path).put_new(taken.name, taken.record())
    with pytest.raises(StoreHeld, match="process 5 "):
        take_epoch(folder, store, later)


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[RenewedLease]:
    lease = RenewedLease.acquire(Location.of(tmp_path), OURS, NOW, QUICK, last_holder)
    yield lease
    lease.release()


def test_a_thread_renews_until_the_release(lease: RenewedLease, tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    counters: set[int] = set()
    while len(counters) < 3:
        holder = last_holder(folder)
        assert holder and holder.renewal and not holder.released
        counters.add(holder.renewal.counter)
        lease.watch().check()
    assert lease.age_s < 5 and (lease.epoch, lease.clean) == (1, True)
    assert isinstance(lease.elsewhere, RemoteLeaseCheck)
    lease.release()
    lease.release()
    with pytest.raises(LeaseLost):
        lease.watch().check()
    after = RenewedLease.acquire(Location.of(tmp_path), THEIRS, NOW, QUICK, last_holder)
    assert (after.epoch, after.clean) == (2, True)
    after.release()


def test_a_successor_ends_the_thread_and_the_spending(lease: RenewedLease, tmp_path: Path) -> None:
    before = last_holder(LocalFolder(tmp_path))
    other = RenewedLease.acquire(Location.of(tmp_path), THEIRS, NOW, QUICK, last_holder)
    assert (other.epoch, other.clean) == (2, True)
    while lease.age_s < inf:
        assert before and before.epoch == 1
    with pytest.raises(LeaseLost, match="is lost"):
        lease.watch().check()
    other.watch().check()
    other.release()


def test_a_holder_that_renews_and_one_that_locks_exclude_each_other(lease: RenewedLease, tmp_path: Path) -> None:
    store = Location.of(tmp_path)
    with pytest.raises(StoreHeld, match=str(OURS)):
        LocalLease.acquire(store, THEIRS, NOW)
    lease.release()
    locked = LocalLease.acquire(store, THEIRS, NOW)
    with pytest.raises(StoreHeld, match=str(THEIRS)):
        RenewedLease.acquire(store, OURS, NOW, QUICK, last_holder)
    locked.release()
    assert last_holder(open_folder(store)) == replace(
        Holder.after(Holder(1, 0, "", "", "", released=True), store, THEIRS, NOW), released=True
    )
