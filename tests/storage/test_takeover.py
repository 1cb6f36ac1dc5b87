"""Taking over from a holder that may be dead: only after it gave no sign of life for long enough."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import pytest

from hab_ray.config.sections import LeaseTimes
from hab_ray.errors import StoreHeld
from hab_ray.location import Location
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.lease.lease import Holder, LocalLease, last_holder
from hab_ray.storage.lease.renewed import RenewedLease, first_renewal, next_renewal
from hab_ray.storage.lease.takeover import LeaseTakeover, LeaseTerms, acquire_lease

NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
OURS, THEIRS = Location("runs/ours"), Location("runs/theirs")
Event = Callable[[], None]


class Slow(LocalFolder):
    """A folder whose listings take time, or find nobody there."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.before_list: Event = lambda: None

    def list(self, prefix: str = "") -> list[str]:
        self.before_list()
        return list(super().list(prefix))


class Scene:
    """A store that somebody held at second 0, and what happens to it at given seconds while a taker waits."""

    def __init__(self, root: Path, taker: LeaseTimes | None = None, holder: LeaseTimes | None = None) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.store, self.folder = Location.of(root), Slow(root)
        first = Holder.after(None, self.store, THEIRS, NOW)
        self.holder = replace(first, pid=4711, host="far", renewal=first_renewal(holder or LeaseTimes()))
        self.folder.put_new(self.holder.name, self.holder.record())
        self.happens: Mapping[float, Event] = {}
        terms = LeaseTerms(taker or LeaseTimes(), shared_filesystem=True, say=self.said.append)
        self.succession = LeaseTakeover(self.store, terms, lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        """Let time pass, and with it what happens."""
        until = self.now + seconds
        for at in sorted(at for at in self.happens if self.now < at <= until):
            self.happens[at]()
        self.now = until

    def renew(self) -> None:
        """The holder gives a sign of life."""
        assert self.holder.renewal
        self.holder = replace(self.holder, renewal=next_renewal(self.holder.renewal))
        self.folder.put(self.holder.name, self.holder.record())

    def release(self) -> None:
        """The holder ends."""
        self.folder.put(self.holder.name, replace(self.holder, released=True).record())

    def wait(self) -> Holder | None:
        """Wait as a taker does."""
        return self.succession.find_predecessor(self.folder)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_record_that_does_not_change_for_40_s_is_a_dead_holders(scene: Scene) -> None:
    assert scene.wait() == scene.holder
    assert 40 <= scene.now < 42
    for part in ("process 4711 on far", "Waiting 40 s", "within about 10 s", "Ctrl-C"):
        assert part in scene.said[0]
    assert "taking over" in scene.said[1]
    scene.succession.wait_for_revived_holder()
    assert scene.now < 42


@pytest.mark.parametrize("at", [0.5, 10.0, 39.9])
def test_a_holder_that_renews_is_left_alone_as_soon_as_that_is_seen(scene: Scene, at: float) -> None:
    scene.happens = {at: scene.renew}
    with pytest.raises(StoreHeld, match="process 4711 on far"):
        scene.wait()
    assert at <= scene.now <= at + 1


def test_a_record_that_is_released_is_succeeded_at_once(scene: Scene) -> None:
    scene.happens = {7.0: scene.release}
    before = scene.wait()
    assert before and before.released and scene.now <= 8
    scene.now, scene.said[:] = 0.0, []
    before = scene.wait()
    assert before and before.released and scene.now == 0 and not scene.said


def test_another_taker_that_was_faster_has_it(scene: Scene) -> None:
    other = replace(scene.holder, epoch=2, pid=99, renewal=first_renewal(LeaseTimes()))
    scene.happens = {40.0: lambda: scene.folder.put_new(other.name, other.record())}
    with pytest.raises(StoreHeld, match="process 99 "):
        scene.wait()


def test_a_record_that_somebody_deleted_holds_nothing(scene: Scene) -> None:
    scene.happens = {3.0: lambda: scene.folder.delete(scene.holder.name)}
    assert scene.wait() is None


def test_the_longer_of_both_times_is_waited(tmp_path: Path) -> None:
    quick, long = LeaseTimes(renew_s=1, lost_s=2, take_s=3), LeaseTimes(renew_s=30, lost_s=60, take_s=120)
    patient = Scene(tmp_path / "patient", taker=quick, holder=long)
    patient.wait()
    assert patient.now >= 120
    careful = Scene(tmp_path / "careful", taker=long, holder=quick)
    careful.wait()
    assert careful.now >= 120


def test_time_in_which_the_storage_is_away_counts_for_nothing(scene: Scene) -> None:
    """The holder could not have renewed either."""

    def away() -> None:
        if 20 <= scene.now < 50:
            raise TimeoutError("no answer")

    scene.folder.before_list = away
    scene.wait()
    assert 90 <= scene.now < 93


def test_a_look_that_hangs_counts_for_nothing(scene: Scene) -> None:
    def hang() -> None:
        if 20 <= scene.now < 50:
            scene.now = 60.0

    scene.folder.before_list = hang
    scene.wait()
    assert 100 <= scene.now < 103


def test_a_taker_that_was_slow_to_write_waits_until_a_holder_that_came_back_must_have_noticed(scene: Scene) -> None:
    scene.wait()
    taken_at = scene.now = scene.now + 11
    scene.succession.wait_for_revived_holder()
    assert scene.now == taken_at + 20


def test_a_lock_needs_no_waiting_and_nobody_before_neither(tmp_path: Path) -> None:
    def never(_: float) -> None:
        raise AssertionError("nothing to wait for")

    store, folder = Location.of(tmp_path), LocalFolder(tmp_path)
    succession = LeaseTakeover(store, LeaseTerms(), lambda: 0.0, never)
    assert succession.find_predecessor(folder) is None
    LocalLease.acquire(store, THEIRS, NOW)
    assert succession.find_predecessor(folder) == last_holder(folder)
    succession.wait_for_revived_holder()


@pytest.mark.parametrize(("shared", "kind"), [(False, LocalLease), (True, RenewedLease)])
def test_how_a_store_is_held(tmp_path: Path, shared: bool, kind: type[LocalLease] | type[RenewedLease]) -> None:
    lease = acquire_lease(Location.of(tmp_path), OURS, NOW, LeaseTerms(shared_filesystem=shared))
    assert isinstance(lease, kind) and lease.age_s < inf
    lease.watch().check()
    lease.release()


def test_a_holder_by_lock_waits_for_one_that_renews_too(tmp_path: Path) -> None:
    """Its lock may be on another machine, where it cannot be seen."""
    scene = Scene(tmp_path, holder=LeaseTimes(renew_s=0.01, lost_s=0.02, take_s=0.05))
    said: list[str] = []
    quick = LeaseTerms(LeaseTimes(renew_s=0.01, lost_s=0.02, take_s=0.05), say=said.append)
    lease = acquire_lease(scene.store, OURS, NOW, quick)
    assert (lease.epoch, lease.clean, len(said)) == (2, True, 2)
    lease.release()


def test_after_a_lock_that_a_crash_ended_its_workers_may_still_spend(tmp_path: Path) -> None:
    store = Location.of(tmp_path)
    LocalLease.acquire(store, THEIRS, NOW).release()
    folder = LocalFolder(tmp_path)
    crashed = last_holder(folder)
    assert crashed
    folder.put(crashed.name, replace(crashed, released=False).record())
    lease = acquire_lease(store, OURS, NOW, LeaseTerms(shared_filesystem=True))
    assert (lease.epoch, lease.clean) == (2, False)
    lease.release()
