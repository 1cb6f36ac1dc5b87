"""Disk space held back for replies that are paid for when the disk is full."""

from __future__ import annotations

import os

from hab_ray.location import Location

BALLAST_BYTES = 8 << 20


class Ballast:
    """A file that takes up `BALLAST_BYTES` until `release`.

    Raises:
        OSError: there is not as much space; then nothing should be asked that has to be paid for.
    """

    def __init__(self, store: Location, name: str) -> None:
        folder = store.path / "ballast"
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / name
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.posix_fallocate(handle, 0, BALLAST_BYTES)
        except OSError:
            self.release()
            raise
        finally:
            os.close(handle)

    def release(self) -> None:
        """Give the space back."""
        self._path.unlink(missing_ok=True)
