"""`python -m hab_ray.local`: the process that `LocalServer` starts, with all of these options."""

import argparse
import asyncio
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from hab_ray.local.errors import LocalError

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
_POLL_S = 1.0


def die_with(parent: int) -> None:
    """End this process when its parent ends, even by `kill -9`; at once if the parent has ended already.

    Linux kills it the moment the parent dies (PR_SET_PDEATHSIG). On every system a thread compares the parent's pid
    once a second. The server keeps no state, so a kill loses nothing.

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


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hab_ray.local", description=__doc__)
    parser.add_argument("--chat", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--embeddings", action="append", default=[], metavar="NAME")
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--listener", type=int, required=True, help="file descriptor of a listening socket")
    parser.add_argument("--parent", type=int, required=True, help="exit when this process ends")
    return parser.parse_args()


def main() -> int:
    """Run the command; on a LocalError, print it and return 1."""
    arguments = _arguments()
    die_with(arguments.parent)
    from hab_ray.local.front import serve

    chat = {name: Path(path) for name, _, path in (each.partition("=") for each in arguments.chat)}
    try:
        asyncio.run(serve(chat, arguments.embeddings, arguments.slots, socket.socket(fileno=arguments.listener)))
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
