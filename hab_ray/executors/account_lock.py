"""Locks that let one process per machine call a provider account, unless a Ray cluster enforces its rate limits.

Outside Ray each process enforces the rate limits alone, so two processes would exceed them.

The locks are in a subfolder of the system's temporary folder, where every user may write. A subfolder that others can
access is refused and links in it are not followed, so that no other user can hold a lock or make us overwrite a file.
"""

import errno
import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

from hab_ray.errors import AccountBusy, ConfigError


class AccountLock:
    """The lock of one account, held until `release` or the end of the process.

    Raises:
        AccountBusy: another process holds it.
        ConfigError: the folder of locks is not private to this user or does not support locks.
    """

    def __init__(self, account: str, provider: str, run: str) -> None:
        folder = Path(tempfile.gettempdir()) / f"hab_ray-{os.getuid()}"
        try:
            self._file = _open(folder, f"{account}.lock")
            _lock(self._file, provider)
        except OSError as error:
            raise ConfigError(
                f"{folder}: {error.strerror}; it holds the locks of provider accounts and must be this user's alone "
                "(mode 0700): remove it, or name another folder for temporary files with TMPDIR"
            ) from None
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()}, run {run}")
        self._file.flush()

    def release(self) -> None:
        """Let other processes call the account, whichever were forked meanwhile."""
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()


def _open(folder: Path, name: str) -> IO[str]:
    folder.mkdir(mode=0o700, exist_ok=True)
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(inside)
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(errno.EPERM, "is another user's, or others may use it")
        handle = os.open(
            name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=inside
        )
    finally:
        os.close(inside)
    return open(handle, "r+", encoding="utf-8")


def _lock(file: IO[str], provider: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read() or "another process"
        file.close()
        raise AccountBusy(
            f"{provider} is being called at the same endpoint by another hab on this machine ({holder}), and the two "
            "would exceed its limits; wait until that has ended, or run both with `executor: ray` on one Ray cluster "
            "(RAY_ADDRESS), which shares the limits"
        ) from None
