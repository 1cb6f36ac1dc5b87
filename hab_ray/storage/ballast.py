"""Disk space held back for replies that are paid for when the disk is full."""

from __future__ import annotations

import os

from hab_ray.location import Location

BALLAST_BYTES = 8 << 20


class Ballast:
    """A file that takes up `BALLAST_BYTES` until `release`. None is needed where the store is not on this machine.

    Raises:
        OSError: there is not as much space; then nothing should be asked that has to be paid for.
    """

    def __init__(self, store: Location, name: str) -> None:
        self._file = store / f"ballast/{name}" if store.is_local else None
        if self._file is None:
            return
        (store / "ballast").path.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._file.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.posix_fallocate(handle, 0, BALLAST_BYTES)
        except OSError:
            self.release()
            raise
        finally:
            os.close(handle)

    def release(self) -> None:
        """Give the space back."""
        if self._file:
            self._file.path.unlink(missing_ok=True)
