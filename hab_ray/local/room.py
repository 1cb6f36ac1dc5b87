"""How much memory and disk this machine has left for weights."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

_KIB = 1024


def free_memory(root: Path = Path("/")) -> int | None:
    """The bytes of memory that a new process may take; None where the system does not say.

    The least of what Linux calls available and what is left to the process' control group, such as a container's.
    `root` is where /proc and /sys are.
    """
    found: list[int] = []
    with suppress(OSError, ValueError, StopIteration):
        lines = (root / "proc/meminfo").read_text().splitlines()
        found.append(int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * _KIB)
    group = root / "sys/fs/cgroup"
    with suppress(OSError, ValueError):  # "max" where there is no bound
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(found, default=None)


def free_disk(folder: Path) -> int:
    """The bytes that are free on the disk of a folder that need not exist yet."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return shutil.disk_usage(there).free
