"""The server's process: loads the models, prints its URL and serves until killed."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiohttp import web

from hab_ray.local.chat import load_chat
from hab_ray.local.embed import Embedder
from hab_ray.local.front import Front
from hab_ray.local.server import TOKEN


async def serve(chat: Mapping[str, Path], embeddings: Sequence[str], slots: int, listener: socket.socket) -> None:
    """Serve on a listening socket and print the URL as the first line of standard output.

    The URL contains a secret token; requests without it get a 404.

    Raises:
        LocalError: a model cannot be loaded.
    """
    announce = _redirect_stdout()
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    models = {name: load_chat(name, path, slots, threads) for name, path in chat.items()}
    embedders = {name: Embedder(name) for name in embeddings}
    front = Front(models, embedders, slots)
    token = os.environ.pop(TOKEN, None) or secrets.token_urlsafe(16)
    runner = web.AppRunner(front.application(token), handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    host, port = runner.addresses[0][:2]
    os.write(announce, f"http://{host}:{port}/{token}/v1\n".encode())
    await asyncio.Event().wait()


def _redirect_stdout() -> int:
    """Return a descriptor of stdout, and redirect what libraries print there to stderr, which is the log."""
    sys.stdout.flush()
    announce = os.dup(1)
    os.dup2(2, 1)
    return announce
