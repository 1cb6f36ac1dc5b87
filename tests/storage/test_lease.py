"""One driver per store: who holds it is named, a crash is noticed, a lost lease ends spending."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hab_ray.errors import Exit, LeaseLost, StoreHeld
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.lease import LeaseWatch, LocalLease, last_holder, run_folder, run_name

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
HOLD = """
import sys
from datetime import datetime, UTC
from pathlib import Path
from hab_ray.storage.lease import LocalLease
lease = LocalLease.acquire(Path(sys.argv[1]), Path("runs/first"), datetime.now(UTC))
print(lease.epoch, flush=True)
sys.stdin.read()
lease.release()
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def other(store: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the store."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, str(store)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "1\n"
        yield process
        process.kill()


def test_a_second_driver_is_told_who_holds_the_store(store: Path, other: subprocess.Popen[str]) -> None:
    with pytest.raises(StoreHeld) as told:
        LocalLease.acquire(store, Path("runs/second"), NOW)
    for part in (
        f"process {other.pid} ",
        socket.gethostname(),
        str(Path("runs/first").absolute()),
        str(store),
        "`store:`",
    ):
        assert part in str(told.value)
    assert told.value.exit is Exit.HELD
    holder = last_holder(LocalFolder(store))
    assert holder and (holder.pid, holder.epoch, holder.released) == (other.pid, 1, False)


def test_after_a_kill_the_next_takes_over_and_knows_it(store: Path, other: subprocess.Popen[str]) -> None:
    other.kill()
    other.wait()
    lease = LocalLease.acquire(store, Path("runs/second"), NOW)
    assert (lease.epoch, lease.clean) == (2, False)
    holder = last_holder(LocalFolder(store))
    assert holder and (holder.pid, holder.run, holder.since) == (
        os.getpid(),
        run_name(store, Path("runs/second")),
        NOW.isoformat(),
    )
    lease.release()


def test_after_a_release_the_next_starts_clean(store: Path, other: subprocess.Popen[str]) -> None:
    other.communicate("")
    lease = LocalLease.acquire(store, Path("runs/second"), NOW)
    assert (lease.epoch, lease.clean) == (2, True)
    lease.release()
    third = LocalLease.acquire(store, Path("runs/second"), NOW)
    assert (third.epoch, third.clean) == (3, True)
    third.release()


def test_a_run_is_called_the_same_wherever_it_and_its_store_are_mounted() -> None:
    names = {run_name(Path(place) / "store", Path(place) / "runs/first") for place in ("/here", "/mnt/there", "x")}
    assert names == {"../runs/first"}
    assert run_folder(Path("/mnt/there/store"), *names) == Path("/mnt/there/runs/first")
    assert run_folder(Path("x/store"), *names) == Path("x/runs/first").absolute()


def test_the_first_driver_of_a_store_starts_clean(store: Path) -> None:
    lease = LocalLease.acquire(store, Path("runs/first"), NOW)
    assert (lease.epoch, lease.clean) == (1, True)
    with pytest.raises(StoreHeld, match=f"process {os.getpid()} "):
        LocalLease.acquire(store, Path("runs/first"), NOW)
    lease.release()


def test_a_driver_that_has_not_said_its_name_yet_is_not_taken_for_the_one_before(store: Path) -> None:
    LocalLease.acquire(store, Path("runs/first"), NOW).release()
    starting = LocalLease.acquire(store, Path("runs/second"), NOW)
    (store / "lease" / "000002.json").unlink()
    with pytest.raises(StoreHeld, match="another process that has just started"):
        LocalLease.acquire(store, Path("runs/third"), NOW)
    starting.release()


class Listed(LocalFolder):
    """A folder that counts its listings."""

    listings = 0

    def list(self, prefix: str = "") -> Sequence[str]:
        self.listings += 1
        return super().list(prefix)


class Clock:
    """Seconds that pass when the test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_watch_looks_at_most_once_a_second(store: Path) -> None:
    lease, folder, clock = LocalLease.acquire(store, Path("runs/first"), NOW), Listed(store), Clock()
    watch = LeaseWatch(folder, lease.epoch, clock)
    for _ in range(1000):
        watch.check()
        clock.now += 0.01
    assert 9 <= folder.listings <= 11
    lease.release()


def test_a_watch_ends_spending_once_a_later_epoch_is_there(store: Path) -> None:
    lease, folder, clock = LocalLease.acquire(store, Path("runs/first"), NOW), Listed(store), Clock()
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


def test_a_watch_ends_spending_once_the_lease_is_released_or_gone(store: Path, tmp_path: Path) -> None:
    lease = LocalLease.acquire(store, Path("runs/first"), NOW)
    lease.release()
    for folder in (LocalFolder(store), LocalFolder(tmp_path / "empty")):
        with pytest.raises(LeaseLost):
            LeaseWatch(folder, lease.epoch, Clock()).check()
