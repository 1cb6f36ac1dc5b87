"""Shows a run in a thread of its own: whoever watches can neither slow it, nor break it, nor change it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from hab_ray.progress import Progress
from hab_ray.sweep.telling.log import LogEntry, log
from hab_ray.visible import one_line

LAST_SHOWN_WITHIN_S = 5.0
_LOG = logging.getLogger(__name__)


class Announcer:
    """Hands `watch` the newest progress, and the log its entries, as fast as they take them.

    A progress that is not shown before the next one is left out; no entry is.
    """

    def __init__(self, watch: Callable[[Progress], None]) -> None:
        self._watch = watch
        self._changed = threading.Condition()
        self._newest: Progress | None = None
        self._entries: list[LogEntry] = []
        self._is_closed = False
        self._thread = threading.Thread(target=self._show_all, name="display", daemon=True)
        self._thread.start()

    def announce(self, progress: Progress, entries: Sequence[LogEntry]) -> None:
        """Have this shown; returns at once."""
        with self._changed:
            self._newest = progress
            self._entries += entries
            self._changed.notify()

    def close(self) -> None:
        """Show what was announced last, and end; what takes longer than `LAST_SHOWN_WITHIN_S` is left behind."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(LAST_SHOWN_WITHIN_S)

    def _show_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest or self._is_closed)
                progress, self._newest = self._newest, None
                entries, self._entries = self._entries, []
            if progress is None:
                return
            self._show(progress, entries)

    def _show(self, progress: Progress, entries: Sequence[LogEntry]) -> None:
        try:
            for entry in entries:
                log(entry)
            self._watch(progress)
        except Exception as error:
            self._watch = lambda progress: None
            told = one_line(f"{type(error).__name__}: {error}")
            _LOG.warning("what shows the run has failed, and the run goes on without it: %s", told)
