"""Asks once more, as a request is written to its connection, whether it may be sent.

Much may happen between the decision to send a request and its first byte: the host's name is resolved, a connection is
opened, or the whole process is stopped for a minute and loses its lease. The engine opens a `WriteCheck` around its
call of a provider; the providers' HTTP clients send bodies through the check that is `current`. aiohttp holds the
headers back until it has the first piece of the body, so that a refused request leaves no byte behind.

A provider of another distribution with an HTTP client of its own is not asked again at the write.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class WriteCheck:
    """Asks `check`, which refuses by an exception, as requests are written.

    `refusal` is that exception where it kept a request from being sent, before anything of it was written.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self.refusal: Exception | None = None

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Around requests by providers, in one task.

        A refusal replaces what a client makes of it on the way. A cancellation stays one.
        """
        outer = _CURRENT.set(self)
        try:
            yield
        except Exception:
            if self.refusal is None:
                raise
            raise self.refusal from None
        finally:
            _CURRENT.reset(outer)

    async def pieces(self, body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """A request's body, of which each piece is asked for.

        A refusal after the first piece breaks the connection off. The vendor then has half a request, which the engine
        treats as any connection that broke.

        Raises:
            Exception: what the check raises.
        """
        begun = False
        async for piece in body:
            try:
                self._check()
            except Exception as error:
                if not begun:
                    self.refusal = error
                raise
            begun = True
            yield piece


_CURRENT: ContextVar[WriteCheck | None] = ContextVar("write_check", default=None)


def current() -> WriteCheck | None:
    """The check for the requests of this task; None where nothing is to be asked."""
    return _CURRENT.get()
