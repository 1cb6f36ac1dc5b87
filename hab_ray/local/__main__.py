"""`python -m hab_ray.local serve`: the process that `LocalServer` starts."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from hab_ray.local.errors import LocalError
from hab_ray.local.tether import die_with


def _named_path(text: str) -> tuple[str, Path]:
    name, separator, path = text.partition("=")
    if not (name and separator and path):
        raise argparse.ArgumentTypeError(f"{text}: write NAME=FILE.gguf")
    return name, Path(path)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hab_ray.local", description=__doc__)
    commands = parser.add_subparsers(required=True)
    serve = commands.add_parser("serve", help="serve models on 127.0.0.1 over the OpenAI protocol")
    serve.add_argument("--chat", type=_named_path, action="append", default=[], metavar="NAME=FILE")
    serve.add_argument("--embeddings", action="append", default=[], metavar="NAME")
    serve.add_argument("--slots", type=int, default=4)
    serve.add_argument("--listener", type=int, help="file descriptor of a listening socket; default: a free port")
    serve.add_argument("--parent", type=int, default=os.getppid(), help="exit when this process ends")
    serve.add_argument("--mark", default="", help="a text that identifies this process in a process list")
    serve.set_defaults(run=_serve)
    return parser


def _serve(arguments: argparse.Namespace) -> None:
    die_with(arguments.parent)
    from hab_ray.local.serve import serve

    fileno = arguments.listener
    listener = socket.create_server(("127.0.0.1", 0)) if fileno is None else socket.socket(fileno=fileno)
    asyncio.run(serve(dict(arguments.chat), arguments.embeddings, arguments.slots, listener))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; on a LocalError, print it and return 1."""
    arguments = _arguments().parse_args(argv)
    try:
        arguments.run(arguments)
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
