"""One process at a time calls an account from one machine."""

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from hab_ray.errors import AccountBusy, ConfigError, Exit
from hab_ray.executors.account_lock import AccountLock
from tests.forking import forked

TRY = "from hab_ray.executors.account_lock import AccountLock; AccountLock({account!r}, 'lab', 'other')"


def test_second_process_is_refused() -> None:
    """While one holds the account the next is told who does; then it may have it."""
    account = f"test-{token_hex(8)}"
    held = AccountLock(account, "lab", "../runs/first")
    with pytest.raises(AccountBusy, match=r"lab is being called .* run ../runs/first") as refused:
        AccountLock(account, "lab", "../runs/second")
    assert refused.value.exit is Exit.HELD and "RAY_ADDRESS" in str(refused.value)
    command = [sys.executable, "-c", TRY.format(account=account)]
    assert b"AccountBusy" in subprocess.run(command, capture_output=True, timeout=60).stderr
    held.release()
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def test_a_process_that_was_forked_meanwhile_does_not_hold_a_released_account() -> None:
    account = f"test-{token_hex(8)}"
    held = AccountLock(account, "lab", "../runs/first")
    with forked():
        held.release()
        AccountLock(account, "lab", "../runs/second").release()


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the folder of locks will be."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path / f"hab_ray-{os.getuid()}"


def test_a_folder_of_locks_that_others_may_use_is_refused(locks: Path, tmp_path: Path) -> None:
    """Another user makes it first, or a link in its place."""
    locks.mkdir()
    locks.chmod(0o777)
    with pytest.raises(ConfigError, match=r"hab_ray-\d+: .*0700.*TMPDIR"):
        AccountLock("a", "lab", "x")
    locks.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    locks.symlink_to("elsewhere")
    with pytest.raises(ConfigError, match="TMPDIR"):
        AccountLock("a", "lab", "x")
    assert not list((tmp_path / "elsewhere").iterdir())
    locks.unlink()
    AccountLock("a", "lab", "x").release()
    assert locks.stat().st_mode & 0o777 == 0o700 and (locks / "a.lock").stat().st_mode & 0o777 == 0o600


def test_a_file_system_without_locks_is_not_taken_for_a_busy_account(
    locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(ConfigError, match=r"No locks available.*TMPDIR"):
        AccountLock("a", "lab", "x")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_locks_of_another_user_is_refused(locks: Path) -> None:
    locks.mkdir(mode=0o700)
    os.chown(locks, 65534, 65534)
    with pytest.raises(ConfigError, match="another user's"):
        AccountLock("a", "lab", "x")


def test_a_link_in_the_place_of_a_lock_is_not_followed(locks: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("all of it")
    locks.mkdir(mode=0o700)
    (locks / "a.lock").symlink_to(tmp_path / "thesis")
    with pytest.raises(ConfigError, match="TMPDIR"):
        AccountLock("a", "lab", "x")
    assert (tmp_path / "thesis").read_text() == "all of it"
