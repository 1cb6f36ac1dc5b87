"""Ctrl-C and SIGTERM: the first asks a command to stop, the second ends the process.

Python runs signal handlers in the main thread between two bytecodes, and that thread may be blocked in one call for
seconds (`ray.get`, a fit in BLAS). So a background thread reads the signals from `signal.set_wakeup_fd` and acts at
once: it notifies the senders of requests, and it ends the process if the main thread does not.

    first signal ── deferred ──> the callback runs in the background thread; the main thread checks `requested`
                 ── else ──────> KeyboardInterrupt in the main thread
    second signal, or `longest_s` after the first ──> last words, exit status 130
"""

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from math import inf

from hab_ray.errors import Exit, Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DRAIN_S = 20.0
LATE_S = 5.0
MAX_S = DRAIN_S + LATE_S
LAST_WORDS_S = 2.0
CHECK_S = 0.5
SAME_SIGNAL_S = 0.3  # `timeout` signals a process and its group, a closed terminal often twice
MAX_PEEKED = 64


class Stop:
    """The user's request to stop this process. At most one instance per process may listen to signals."""

    def __init__(self) -> None:
        self._at = inf
        self._lock, self._claim = threading.Lock(), threading.Lock()
        self._on_stop: Callable[[], None] | None = None
        self._longest_s = MAX_S
        self._last_words: list[Callable[[], None]] = []
        self._raised = False
        self._terminals: tuple[int, ...] = ()
        self._signals: tuple[socket.socket, socket.socket] | None = None

    @property
    def requested(self) -> bool:
        """Whether the first signal arrived."""
        return self._at < inf

    @property
    def since_s(self) -> float:
        """Seconds since the first signal; 0 if there was none."""
        return max(0.0, time.monotonic() - self._at) if self.requested else 0.0

    def check(self) -> None:
        """Check that no stop was requested; cheap enough to call before each request is written.

        This also looks for unread signals, because on a busy machine the background thread may read them late. Raise
        Interrupted if a stop was requested.
        """
        if self.requested or (self._signals and _is_arriving(self._signals[0])):
            raise Interrupted("stopped on request")

    def request(self) -> None:
        """Request a stop as the first signal does, in a process that handles its own signals. For any thread.

        A signal handler may call it if the code within `deferred` runs in another thread.
        """
        if not self._claim.acquire(blocking=False):  # atomic, also if a signal interrupts this very method
            return
        with self._lock:
            if self.requested:
                return
            self._at = time.monotonic()
            if self._on_stop:
                self._on_stop()

    def listen(self) -> None:
        """Handle SIGINT, SIGTERM and, unless it is ignored (`nohup`), SIGHUP. For the main thread; idempotent."""
        if self._signals:
            return
        reader, writer = self._signals = socket.socketpair()
        writer.setblocking(False)
        self._terminals = open_terminals()
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._interrupt)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader.fileno(),), name="signals", daemon=True).start()

    @contextmanager
    def deferred(self, on_stop: Callable[[], None], longest_s: float) -> Iterator[None]:
        """Let the first signal call `on_stop` from another thread, instead of raising KeyboardInterrupt here.

        The process ends `longest_s` seconds after the signal. Raise KeyboardInterrupt if the signal arrived earlier.
        """
        with self._lock:
            came_before = self.requested
            self._on_stop, self._longest_s = on_stop, longest_s
        try:
            if came_before:
                self._raise_once()
            yield
        finally:
            with self._lock:
                self._on_stop = None
                if not self.requested:
                    self._longest_s = MAX_S

    def finish(self, status: int) -> None:
        """From now on, let a signal end the process with this status, because only Python's cleanup is left."""
        with self._lock:
            self._on_stop = partial(os._exit, status)

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """Within `deferred`, let the signal raise KeyboardInterrupt during one long call that may be interrupted."""
        with self._lock:
            on_stop, self._on_stop = self._on_stop, None
            came_before = self.requested
        try:
            if came_before:
                self._raise_once()
            yield
        finally:
            with self._lock:
                self._on_stop = on_stop
            if self.requested and not came_before and on_stop:
                on_stop()

    @contextmanager
    def last_words(self, say: Callable[[], None]) -> Iterator[None]:
        """Call `say` if the process is ended by force within this block; the innermost block goes first."""
        self._last_words.insert(0, say)
        try:
            yield
        finally:
            self._last_words.remove(say)

    def _interrupt(self, number: int, _: object) -> None:
        """Handle a signal in the main thread, possibly before the background thread has read it."""
        if number == signal.SIGHUP:
            detach(self._terminals)
        self._at = min(self._at, time.monotonic())
        if self._on_stop is None:
            self._raise_once()

    def _raise_once(self) -> None:
        """Raise KeyboardInterrupt unless it was raised before: a second one would interrupt the cleanup."""
        if not self._raised:
            self._raised = True
            raise KeyboardInterrupt

    def _watch(self, reader: int) -> None:
        _wait_for_signal(reader, lambda: inf)
        self._at = min(self._at, time.monotonic())
        with self._lock:
            if self._on_stop:
                self._on_stop()
        time.sleep(SAME_SIGNAL_S)
        while select.select([reader], [], [], 0)[0]:
            os.read(reader, MAX_PEEKED)
        _wait_for_signal(reader, lambda: self._longest_s - self.since_s)
        speaking = threading.Thread(target=self._speak, daemon=True)
        speaking.start()
        speaking.join(LAST_WORDS_S)
        os._exit(int(Exit.INTERRUPTED))

    def _speak(self) -> None:
        for say in list(self._last_words):
            with suppress(Exception):
                say()


def open_terminals() -> tuple[int, ...]:
    """Return those of standard output and error that are terminals."""
    return tuple(output for output in (1, 2) if os.isatty(output))


def detach(terminals: Iterable[int]) -> None:
    """Discard output to a closed terminal, because errors of writing would interrupt the cleanup."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for output in terminals:
        os.dup2(nothing, output)
    os.close(nothing)


def _is_arriving(reader: socket.socket) -> bool:
    """Return whether the background thread has an unread signal of ours."""
    try:
        waiting = reader.recv(MAX_PEEKED, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return any(number in SIGNALS for number in waiting)


def _wait_for_signal(reader: int, left_s: Callable[[], float]) -> None:
    """Wait for one of our signals, or until `left_s` returns no more time."""
    while (wait_s := left_s()) > 0:
        timeout_s = None if wait_s == inf else min(wait_s, CHECK_S)
        readable, _, _ = select.select([reader], [], [], timeout_s)
        if readable and any(number in SIGNALS for number in os.read(reader, 1)):
            return
