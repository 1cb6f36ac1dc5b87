"""A stored file that is read by ranges: what of it is not asked for is not fetched."""

from __future__ import annotations

import io

from hab_ray.storage.folder import Folder


class RangeFile(io.RawIOBase):
    """A file of a folder, open for reading.

    Raises:
        FileNotFoundError: nothing is there.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._size, self._at = folder.size(name), 0

    def readable(self) -> bool:
        """See io."""
        return True

    def seekable(self) -> bool:
        """See io."""
        return True

    def tell(self) -> int:
        """See io."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See io."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """See io."""
        left = max(0, self._size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        data = self._folder.get_range(self._name, self._at, length) if length else b""
        self._at += len(data)
        return data
