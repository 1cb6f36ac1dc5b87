"""What the C library keeps of memory that was freed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_LARGE = 1 << 20
_ARENAS = 2


def give_back_large_blocks() -> None:
    """Have glibc return blocks of a mebibyte and more to the system as soon as they are freed.

    It raises that threshold by itself to 32 MB once such blocks are freed, and keeps an arena a thread: a driver that
    packs and reads batches of many megabytes on several threads then holds twice what it uses. No effect elsewhere.
    Source: mallopt(3).
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_ARENA_MAX, _ARENAS)
