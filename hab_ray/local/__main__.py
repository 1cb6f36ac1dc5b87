"""`python -m hab_ray.local`: the process that `LocalServer` starts, with all of these options."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from pathlib import Path

from hab_ray.local.errors import LocalError
from hab_ray.local.tether import die_with


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
