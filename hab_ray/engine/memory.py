"""What the C library keeps of memory that was freed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_MMAP_THRESHOLD = -3
_LARGE = 1 << 20


def map_large_blocks() -> None:
    """Have glibc return blocks of a mebibyte and more to the system as soon as they are freed.

    Left alone it raises that threshold to 32 MB once such blocks are freed, and keeps them. No effect elsewhere.
    Source: mallopt(3).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


def give_back_freed() -> None:
    """Have glibc return what is free between blocks in use: after a batch of many small ones, most of what it holds.

    No effect elsewhere. Source: malloc_trim(3).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
