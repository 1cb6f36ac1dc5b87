"""Disk space and inodes reserved for paid replies in case the disk fills up."""

from __future__ import annotations

import os

from hab_ray.location import Location
from hab_ray.storage.modes import make_folder, open_new

BALLAST_BYTES = 8 << 20
SPARE_FILES = 64


class Ballast:
    """Files that occupy `BALLAST_BYTES` and `SPARE_FILES` inodes until `release`; none for a store in a bucket.

    Raises:
        OSError: the disk lacks that room, so no call that costs money should be sent.
    """

    def __init__(self, store: Location, name: str) -> None:
        names = [name, *(f"{name}~{n}" for n in range(SPARE_FILES))] if store.is_local else []
        self._files = [(store / f"ballast/{each}").path for each in names]
        try:
            for file in self._files:
                make_folder(file.parent, store.path)
                handle = open_new(file, store.path, os.O_WRONLY | os.O_TRUNC)
                with open(handle, "wb"):
                    if file is self._files[0]:
                        os.posix_fallocate(handle, 0, BALLAST_BYTES)
        except OSError as error:
            self.release()
            raise OSError(error.errno, error.strerror, str(self._files[0])) from None

    def release(self) -> None:
        for file in self._files:
            file.unlink(missing_ok=True)
