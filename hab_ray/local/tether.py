"""Ends the server with the process that started it, even after `kill -9`.

Linux kills the server the moment its parent dies (PR_SET_PDEATHSIG). In addition, on every system, a thread compares
the parent's pid once a second, because an orphan gets another parent. The server keeps no state, so a kill loses
nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
_POLL_S = 1.0


def die_with(parent: int) -> None:
    """End this process when its parent ends; at once if the parent has ended already.

    The check must come after the prctl: a parent that died before it sends no signal.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    _end_if_orphaned(parent)
    threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True).start()


def _watch(parent: int) -> None:
    while True:
        time.sleep(_POLL_S)
        _end_if_orphaned(parent)


def _end_if_orphaned(parent: int) -> None:
    if os.getppid() != parent:
        os._exit(0)
