"""How far the reading of a large file is."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

_EVERY_S = 3.0


class RowsRead:
    """Says every few seconds how many rows of a table were read; nothing of one that is read sooner."""

    def __init__(self, terminal: Console, clock: Callable[[], float]) -> None:
        self._terminal, self._clock = terminal, clock
        self._said_at = clock()

    def __call__(self, rows: int) -> None:
        """So many rows were read by now."""
        if self._clock() - self._said_at >= _EVERY_S:
            self._said_at = self._clock()
            self._terminal.print(f"{rows:,} rows read")
