"""Disk space reserved for paid replies in case the disk fills up."""

from __future__ import annotations

import os

from hab_ray.location import Location
from hab_ray.storage.modes import make_folder, open_new

BALLAST_BYTES = 8 << 20


class Ballast:
    """A file of `BALLAST_BYTES` that occupies disk space until `release`; no file for a store in a bucket.

    Raises:
        OSError: the disk lacks that space, so no call that costs money should be sent.
    """

    def __init__(self, store: Location, name: str) -> None:
        self._file = store / f"ballast/{name}" if store.is_local else None
        if self._file is None:
            return
        make_folder((store / "ballast").path, store.path)
        handle = open_new(self._file.path, store.path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.posix_fallocate(handle, 0, BALLAST_BYTES)
        except OSError as error:
            self.release()
            raise OSError(error.errno, error.strerror, str(self._file.path)) from None
        finally:
            os.close(handle)

    def release(self) -> None:
        if self._file:
            self._file.path.unlink(missing_ok=True)
