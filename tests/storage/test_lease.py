"""One driver per store: who holds it is named, a crash is noticed, a lost lease ends spending."""

import fcntl
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer

import pytest

from hab_ray.errors import Exit, LeaseLost, StoreHeld
from hab_ray.location import Location
from hab_ray.storage.folder import LocalFolder, open_folder
from hab_ray.storage.lease.lease import LeaseWatch, LocalLease, StoreLock, last_holder
from hab_ray.storage.lease.takeover import LeaseTerms, acquire_lease
from hab_ray.storage.run import RunFolder
from tests.folders import CountingFolder
from tests.forking import forked
from tests.storage.conftest import Clock

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
HOLD = """
import sys
from datetime import datetime, UTC
from hab_ray.location import Location
from hab_ray.storage.lease.lease import LocalLease
lease = LocalLease.acquire(Location(sys.argv[1]), Location("runs/first"), datetime.now(UTC))
print(lease.epoch, flush=True)
sys.stdin.read()
lease.release()
"""


@pytest.fixture
def store(tmp_path: Path) -> Location:
    return Location.of(tmp_path / "store")


@pytest.fixture
def other(store: Location) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the store."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, str(store)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "1\n"
        yield process
        process.kill()


def test_a_second_driver_is_told_who_holds_the_store(store: Location, other: subprocess.Popen[str]) -> None:
    with pytest.raises(StoreHeld) as told:
        LocalLease.acquire(store, Location("runs/second"), NOW)
    for part in (f"process {other.pid} ", socket.gethostname(), str(Path("runs/first").absolute()), str(store)):
        assert part in str(told.value)
    assert told.value.exit is Exit.HELD
    holder = last_holder(open_folder(store))
    assert holder and (holder.pid, holder.epoch, holder.released) == (other.pid, 1, False)


@pytest.mark.usefixtures("other")
def test_only_a_run_that_has_not_begun_is_told_another_store(store: Location, tmp_path: Path) -> None:
    """A run keeps its store, so that another one would be refused."""
    run = Location.of(tmp_path / "runs/second")
    with pytest.raises(StoreHeld) as told:
        acquire_lease(store, run, NOW, LeaseTerms())
    named = re.search(r"--store (\S+),", str(told.value))
    assert named and named.group(1) == f"{store}-second"
    acquire_lease(Location(named.group(1)), run, NOW, LeaseTerms()).release()
    RunFolder(run).folder.put("sweep.yaml", b"begun")
    with pytest.raises(StoreHeld, match=r"wait for it to end$"):
        acquire_lease(store, run, NOW, LeaseTerms())


def test_after_a_kill_the_next_takes_over_and_knows_it(store: Location, other: subprocess.Popen[str]) -> None:
    other.kill()
    other.wait()
    lease = LocalLease.acquire(store, Location("runs/second"), NOW)
    assert (lease.epoch, lease.clean) == (2, False)
    holder = last_holder(open_folder(store))
    assert holder and (holder.pid, holder.since) == (os.getpid(), NOW.isoformat())
    assert holder.run == Location("runs/second").relative_to(store)
    lease.release()


def test_after_a_release_the_next_starts_clean(store: Location, other: subprocess.Popen[str]) -> None:
    other.communicate("")
    lease = LocalLease.acquire(store, Location("runs/second"), NOW)
    assert (lease.epoch, lease.clean) == (2, True)
    lease.release()
    third = LocalLease.acquire(store, Location("runs/second"), NOW)
    assert (third.epoch, third.clean) == (3, True)
    third.release()


def test_a_process_that_was_forked_meanwhile_does_not_hold_a_released_store(store: Location) -> None:
    """As a script's pool of workers does: it shares what was open when it was forked."""
    lease = LocalLease.acquire(store, Location("runs/first"), NOW)
    with forked():
        lease.release()
        LocalLease.acquire(store, Location("runs/second"), NOW).release()


def test_a_driver_that_has_not_said_its_name_yet_is_not_taken_for_the_one_before(store: Location) -> None:
    first = LocalLease.acquire(store, Location("runs/first"), NOW)
    assert (first.epoch, first.clean) == (1, True)
    first.release()
    starting = LocalLease.acquire(store, Location("runs/second"), NOW)
    open_folder(store).delete("lease/000002.json")
    with pytest.raises(StoreHeld, match="another process that has just started"):
        LocalLease.acquire(store, Location("runs/third"), NOW)
    starting.release()


def test_a_watch_looks_at_most_once_a_second(store: Location) -> None:
    lease, clock = LocalLease.acquire(store, Location("runs/first"), NOW), Clock()
    folder = CountingFolder(open_folder(store))
    watch = LeaseWatch(folder, lease.epoch, clock)
    for _ in range(1000):
        watch.check()
        clock.now += 0.01
    assert 9 <= folder.listings <= 11
    lease.release()


def test_a_watch_ends_spending_once_a_later_epoch_is_there(store: Location) -> None:
    lease, folder, clock = LocalLease.acquire(store, Location("runs/first"), NOW), open_folder(store), Clock()
    watch = LeaseWatch(folder, lease.epoch, clock)
    watch.check()
    holder = json.loads(folder.get("lease/000001.json"))
    folder.put_new("lease/000002.json", json.dumps({**holder, "epoch": 2}).encode())
    clock.now += 0.99
    watch.check()
    clock.now += 0.01
    for _ in range(2):
        with pytest.raises(LeaseLost, match="epoch 1 has ended") as lost:
            watch.check()
        assert lost.value.exit is Exit.HELD
    lease.release()


def test_a_watch_ends_spending_once_the_lease_is_released_or_gone(store: Location, tmp_path: Path) -> None:
    lease = LocalLease.acquire(store, Location("runs/first"), NOW)
    lease.release()
    for folder, why in ((open_folder(store), "has ended"), (LocalFolder(tmp_path / "empty"), "put the store back")):
        with pytest.raises(LeaseLost, match=why):
            LeaseWatch(folder, lease.epoch, Clock()).check()


def test_a_command_that_only_looks_at_the_lock_keeps_no_run_from_starting(tmp_path: Path) -> None:
    """`hab status` locks it for less than a millisecond, to see whether a driver does."""
    store = Location(str(tmp_path))
    StoreLock.taken(store, fcntl.LOCK_EX).release()
    with (tmp_path / "lease" / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        Timer(0.01, lambda: fcntl.flock(looking, fcntl.LOCK_UN)).start()
        LocalLease.acquire(store, Location("runs/second"), NOW).release()
