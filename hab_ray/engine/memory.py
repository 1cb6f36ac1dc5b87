"""Tunes how the C library returns freed memory, and how often the garbage collector runs."""

import ctypes
import gc
from contextlib import suppress

import pyarrow as pa

_MMAP_THRESHOLD = -3
_LARGE = 1 << 20
_COLLECT_EVERY = (20_000, 20, 50)


def map_large_blocks() -> None:
    """Make glibc return blocks of 1 MiB and more to the system as soon as they are freed, including Arrow's.

    By default glibc raises that threshold to 32 MB once such blocks are freed, and keeps them; Arrow's own allocator
    keeps its blocks too. Without glibc, only Arrow changes. Source: mallopt(3), pyarrow.system_memory_pool.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


def trim_malloc() -> None:
    """Make glibc return free memory between blocks in use: most of its heap after many small blocks were freed.

    No effect without glibc. Source: malloc_trim(3).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def freeze_gc() -> None:
    """Exclude everything loaded so far from garbage collection: scanning it took a fifth of the CPU time of a call."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_EVERY)
