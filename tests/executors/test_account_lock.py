"""One process at a time calls an account from one machine."""

from __future__ import annotations

import subprocess
import sys
from secrets import token_hex

import pytest

from hab_ray.errors import AccountBusy, Exit
from hab_ray.executors.account_lock import AccountLock

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


def test_accounts_are_apart() -> None:
    first, second = (AccountLock(f"test-{token_hex(8)}", "lab", "x") for _ in range(2))
    first.release()
    second.release()
