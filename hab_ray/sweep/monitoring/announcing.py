"""Shows a run's progress in a separate thread, so that a slow or failing display cannot disturb the run."""

import logging
import threading
from collections.abc import Callable, Sequence

from hab_ray.progress import Progress
from hab_ray.sweep.monitoring.log import LOG
from hab_ray.visible import one_line

CLOSE_WITHIN_S = 5.0
_LOG = logging.getLogger(__name__)


class Announcer:
    """Passes the newest progress to `watch`, and entries to the log.

    A slow `watch` misses all but the newest progress; every log entry is written.
    """

    def __init__(self, watch: Callable[[Progress], None]) -> None:
        self._watch = watch
        self._changed = threading.Condition()
        self._newest: Progress | None = None
        self._entries: list[logging.LogRecord] = []
        self._is_closed = False
        self._thread = threading.Thread(target=self._show_all, name="display", daemon=True)
        self._thread.start()

    def announce(self, progress: Progress, entries: Sequence[logging.LogRecord]) -> None:
        """Queue progress and log entries; return at once."""
        with self._changed:
            self._newest = progress
            self._entries += entries
            self._changed.notify()

    def close(self) -> None:
        """Show what is queued and end the thread; stop waiting for it after `CLOSE_WITHIN_S`."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(CLOSE_WITHIN_S)

    def _show_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest or self._is_closed)
                progress, self._newest = self._newest, None
                entries, self._entries = self._entries, []
            if progress is None:
                return
            self._show(progress, entries)

    def _show(self, progress: Progress, entries: Sequence[logging.LogRecord]) -> None:
        try:
            for entry in entries:
                LOG.handle(entry)
            self._watch(progress)
        except Exception as error:
            self._watch = lambda progress: None
            cause = one_line(f"{type(error).__name__}: {error}")
            _LOG.warning("the progress display failed, and the run continues without it: %s", cause)
