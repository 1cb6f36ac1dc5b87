"""What the C library keeps of memory that was freed, and what the garbage collector looks through."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

import pyarrow as pa

_MMAP_THRESHOLD = -3
_LARGE = 1 << 20
_COLLECT_EVERY = (20_000, 20, 50)


def map_large_blocks() -> None:
    """Have glibc return blocks of a mebibyte and more to the system as soon as they are freed, Arrow's among them.

    Left alone it raises that threshold to 32 MB once such blocks are freed, and keeps them; Arrow's own allocator
    keeps its blocks too. Without glibc only Arrow's change. Source: mallopt(3), pyarrow.system_memory_pool.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


def trim_malloc() -> None:
    """Have glibc return what is free between blocks in use: after a batch of many small ones, most of what it holds.

    No effect elsewhere. Source: malloc_trim(3).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def freeze_gc() -> None:
    """Have the garbage collector leave alone what is loaded by now: to look it through took a fifth of a call's CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_EVERY)
