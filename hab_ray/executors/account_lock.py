"""One process at a time calls a provider account from this machine, unless a Ray cluster keeps its limits.

Rate limits that are kept in a process hold for that process alone: two of them would send twice what the account
allows.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

from hab_ray.errors import AccountBusy


class AccountLock:
    """The lock of one account, held until `release` or the end of the process.

    Raises:
        AccountBusy: another process holds it.
    """

    def __init__(self, account: str, provider: str, run: str) -> None:
        folder = Path(tempfile.gettempdir()) / f"hab_ray-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        self._file = (folder / f"{account}.lock").open("a+", encoding="utf-8")
        _lock(self._file, provider)
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()}, run {run}")
        self._file.flush()

    def release(self) -> None:
        """Let others call the account."""
        self._file.close()


def _lock(file: IO[str], provider: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read() or "another process"
        file.close()
        raise AccountBusy(
            f"{provider} is being called with the same key by another hab on this machine ({holder}), and the two "
            "would exceed its limits; wait until that has ended, or run both with `executor: ray` on one Ray cluster "
            "(RAY_ADDRESS), which shares the limits"
        ) from None
