"""The memory and disk space that this machine has left for weights."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

_KIB = 1024


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes of memory that a new process may take, or None if the system does not say.

    This is the smaller of Linux's available memory and what the control group (such as a container) has left.
    `root` is the folder that holds /proc and /sys.
    """
    bounds: list[int] = []
    with suppress(OSError, ValueError, StopIteration):
        lines = (root / "proc/meminfo").read_text().splitlines()
        bounds.append(int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * _KIB)
    group = root / "sys/fs/cgroup"
    with suppress(OSError, ValueError):  # "max" = unlimited
        bounds.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(bounds, default=None)


def free_disk(folder: Path) -> int:
    """Return the free bytes on the disk of a folder that need not exist yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free
