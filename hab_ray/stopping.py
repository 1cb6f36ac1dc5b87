"""Ctrl-C and SIGTERM: the first asks a command to stop, the second ends the process.

Python runs signal handlers in the main thread, between two bytecodes, and the main thread may sit in one call for
seconds (`ray.get`, a fit in BLAS). So a thread of its own reads the signals from `signal.set_wakeup_fd` and acts at
once: it calls whoever sends requests, and it ends the process where the main thread does not.

    first signal ── deferred ──> the callback runs in the watching thread; the main thread looks at `requested`
                 ── else ──────> KeyboardInterrupt in the main thread
    second signal, or `longest_s` after the first ──> last words, exit status 130
"""

from __future__ import annotations

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
LOOK_S = 0.5
MAX_WAITING = 64


class Stop:
    """Whether the user wants this process to stop. One process has at most one that listens."""

    def __init__(self) -> None:
        self._at = inf
        self._lock = threading.Lock()
        self._on_stop: Callable[[], None] | None = None
        self._longest_s = MAX_S
        self._last_words: list[Callable[[], None]] = []
        self._raised = False
        self._terminals: tuple[int, ...] = ()
        self._signals: tuple[socket.socket, socket.socket] | None = None

    @property
    def requested(self) -> bool:
        """Whether the first signal came."""
        return self._at < inf

    @property
    def since_s(self) -> float:
        """Seconds since the first signal; 0 before it."""
        return max(0.0, time.monotonic() - self._at) if self.requested else 0.0

    def check(self) -> None:
        """Return while nobody wants to stop. It may be asked just before a request is written.

        On a busy machine other threads may run long before the watching one learns of a signal: who asks looks itself.

        Raises:
            Interrupted: somebody does.
        """
        if self.requested or (self._signals and _is_arriving(self._signals[0])):
            raise Interrupted("stopped on request")

    def request(self) -> None:
        """Stop as on the first signal, in a process whose signals are not ours to take over. For any thread."""
        if self.requested:
            return
        self._at = time.monotonic()
        with self._lock:
            if self._on_stop:
                self._on_stop()

    def listen(self) -> None:
        """Take over SIGINT, SIGTERM, and SIGHUP unless it is ignored (`nohup`). For the main thread; once."""
        if self._signals:
            return
        reader, writer = self._signals = socket.socketpair()
        writer.setblocking(False)
        self._terminals = tuple(output for output in (1, 2) if os.isatty(output))
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._interrupt)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader.fileno(),), name="signals", daemon=True).start()

    @contextmanager
    def deferred(self, on_stop: Callable[[], None], longest_s: float) -> Iterator[None]:
        """For as long as this lasts the first signal calls `on_stop`, from another thread, and raises nothing here.

        `longest_s` after it the process is ended.

        Raises:
            KeyboardInterrupt: the signal came before.
        """
        with self._lock:
            came_before = self.requested
            self._on_stop, self._longest_s = on_stop, longest_s
        if came_before:
            self._raise_once()
        try:
            yield
        finally:
            with self._lock:
                self._on_stop = None
                if not self.requested:
                    self._longest_s = MAX_S

    def finish(self, status: int) -> None:
        """From now on a signal ends the process with this status: only Python's clearing up is left."""
        with self._lock:
            self._on_stop = partial(os._exit, status)

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """Within `deferred`: the signal raises KeyboardInterrupt here too, around one long call that can be left."""
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
        """What is done before the process is ended by force while this lasts, the innermost first."""
        self._last_words.insert(0, say)
        try:
            yield
        finally:
            self._last_words.remove(say)

    def _interrupt(self, number: int, _: object) -> None:
        """The main thread's handler. The watching thread may not have read the signal yet."""
        if number == signal.SIGHUP:
            _leave(self._terminals)
        self._at = min(self._at, time.monotonic())
        if self._on_stop is None:
            self._raise_once()

    def _raise_once(self) -> None:
        """A second KeyboardInterrupt would cut off the clearing up that the first one has begun."""
        if not self._raised:
            self._raised = True
            raise KeyboardInterrupt

    def _watch(self, reader: int) -> None:
        if not _signal_came(reader, None):
            return
        self._at = min(self._at, time.monotonic())
        with self._lock:
            if self._on_stop:
                self._on_stop()
        _signal_came(reader, lambda: self._longest_s - self.since_s)
        self._end()

    def _end(self) -> None:
        speaking = threading.Thread(target=self._speak, daemon=True)
        speaking.start()
        speaking.join(LAST_WORDS_S)
        os._exit(int(Exit.INTERRUPTED))

    def _speak(self) -> None:
        for say in list(self._last_words):
            with suppress(Exception):
                say()


def _leave(terminals: Iterable[int]) -> None:
    """A terminal that was closed takes no output: writing to it would fail and cut off the clearing up."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for output in terminals:
        os.dup2(nothing, output)
    os.close(nothing)


def _is_arriving(reader: socket.socket) -> bool:
    """Whether one of our signals waits to be read by the watching thread."""
    try:
        waiting = reader.recv(MAX_WAITING, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return any(number in SIGNALS for number in waiting)


def _signal_came(reader: int, left_s: Callable[[], float] | None) -> bool:
    """Wait for one of our signals, at most until no time is left; False if that was it."""
    while True:
        wait_s = None if left_s is None else left_s()
        if wait_s is not None and wait_s <= 0:
            return False
        readable, _, _ = select.select([reader], [], [], None if wait_s is None else min(wait_s, LOOK_S))
        if readable and any(number in SIGNALS for number in os.read(reader, 1)):
            return True
