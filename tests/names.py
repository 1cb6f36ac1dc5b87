"""Host names that take as long to resolve as a test wants: requests wait for their connection meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

MAX_S = 20.0


class SlowNames:
    """Names that are resolved once `go_on` is called; `asked` counts the attempts."""

    def __init__(self) -> None:
        self.asked = 0
        self._may = threading.Event()
        self._resolve = socket.getaddrinfo

    def resolve(self, *query: Any, **more: Any) -> Any:
        """As socket.getaddrinfo."""
        self.asked += 1
        self._may.wait(MAX_S)
        return self._resolve(*query, **more)

    def go_on(self) -> None:
        """Let all names be resolved, now and from now on."""
        self._may.set()

    async def waiting(self) -> None:
        """Wait until a request waits for its connection."""
        async with asyncio.timeout(MAX_S):
            while not self.asked:
                await asyncio.sleep(0.005)


@contextmanager
def slow_names() -> Iterator[SlowNames]:
    """All names of this process are slow."""
    names = SlowNames()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", names.resolve)
        try:
            yield names
        finally:
            names.go_on()


def by_name(url: str) -> str:
    """The URL of a local server by the name of the host, which must be resolved."""
    return url.replace("127.0.0.1", "localhost")
