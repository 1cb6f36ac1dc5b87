"""Raises the limit of open files, for commands and `hab_ray.run` alike."""

import resource
from contextlib import suppress

MAX_OPEN_FILES = 10240  # what macOS allows


def allow_open_files() -> None:
    """Raise the soft limit of open files, 256 on some systems, because each call in flight needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
