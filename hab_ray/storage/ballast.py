"""Disk space, inodes and file descriptors reserved for paid replies in case they run out."""

import os
from contextlib import suppress

from hab_ray.location import Location
from hab_ray.storage.modes import make_folder, open_new

BALLAST_BYTES = 8 << 20
SPARE_FILES = 64
SPARE_DESCRIPTORS = 8


class Ballast:
    """Occupies `SPARE_DESCRIPTORS`, and on a local disk `BALLAST_BYTES` and `SPARE_FILES` inodes, until `release`.

    Raises:
        OSError: there is not that much left, so no call that costs money should be sent.
    """

    def __init__(self, store: Location, name: str) -> None:
        names = [name, *(f"{name}~{n}" for n in range(SPARE_FILES))] if store.is_local else []
        self._files = [(store / f"ballast/{each}").path for each in names]
        self._descriptors: list[int] = []
        try:
            self._descriptors += (os.open(os.devnull, os.O_RDONLY) for _ in range(SPARE_DESCRIPTORS))
            if self._files:
                make_folder(self._files[0].parent, store.path)
            for file in self._files:
                handle = open_new(file, store.path, os.O_WRONLY | os.O_TRUNC)
                with open(handle, "wb"):
                    if file is self._files[0]:
                        os.posix_fallocate(handle, 0, BALLAST_BYTES)
        except OSError as error:
            self.release()
            raise OSError(error.errno, error.strerror, str(store / f"ballast/{name}")) from None

    def release(self) -> None:
        """Free what can be freed; a file that cannot be removed must not keep replies from being written."""
        while self._descriptors:
            os.close(self._descriptors.pop())
        for file in self._files:
            with suppress(OSError):
                file.unlink()
