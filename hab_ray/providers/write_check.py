"""Checks again, as a request is written to its connection, whether it may be sent.

Much can happen between the decision to send a request and its first byte: a DNS lookup, a new connection, or a pause of
the whole process in which it loses its lease. The engine enters a `WriteCheck` around each call of a provider, and the
providers' HTTP clients send bodies through the `current` check. aiohttp holds the headers back until it has the first
piece of the body, so a refused request sends nothing at all.

Providers of other distributions that use their own HTTP client are not checked at the write.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class WriteCheck:
    """Calls `check`, which raises to refuse, as requests are written.

    `refusal` is the exception that prevented a request before any of it was written.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self.refusal: Exception | None = None

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Check the requests that this task sends inside the context.

        Raise the refusal instead of what an HTTP client makes of it; a cancellation stays one.
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
        """Yield the pieces of a request's body, each after a check.

        A refusal after the first piece breaks the connection, so that the vendor has half a request; the engine treats
        it as any broken connection.

        Raises:
            Exception: as `check`.
        """
        is_first = True
        async for piece in body:
            try:
                self._check()
            except Exception as error:
                if is_first:
                    self.refusal = error
                raise
            is_first = False
            yield piece


_CURRENT: ContextVar[WriteCheck | None] = ContextVar("write_check", default=None)


def current() -> WriteCheck | None:
    """Return the check for the requests of this task, or None."""
    return _CURRENT.get()
