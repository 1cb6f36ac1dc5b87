"""The terminal that `hab` writes to. Whatever is printed on it is data: no markup, no emoji codes, no escapes."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from hab_ray.visible import for_terminal

FILE_COLUMNS = 140
ROWS_SAID_EVERY_S = 3.0
TABLE_COLUMNS = 76
"""The least width of a table: a narrower terminal breaks its lines rather than each word in its cells."""


class Terminal(Console):
    """A console on which text of unknown origin does nothing.

    Styles are given beside the text, never in it. Strings are made safe before they are laid out, so that tables
    stay straight; what reaches the screen in any other way (`Text`, `Live`) on its way out.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)

    def on_broken_pipe(self) -> None:
        """A reader that has seen enough (`| head`) ends nothing that was paid for."""
        self.quiet = True
        write_nowhere(self.file)

    @override
    def render_str(self, text: str, **settings: Any) -> Text:
        return super().render_str(for_terminal(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Control segments are rich's own: the live view moves the cursor by them."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(for_terminal(segment.text), segment.style)


def print_cells(table: Table, console: Console) -> None:
    """Print a table of which a narrow terminal can still show names and figures whole."""
    if console.width < TABLE_COLUMNS:
        natural = console.measure(table, options=console.options.update_width(TABLE_COLUMNS)).maximum
        table.width = min(natural, TABLE_COLUMNS)
    console.print(table, crop=False)


def write_nowhere(file: IO[str]) -> None:
    """Have what is written to a file from now on, and what it still holds, go nowhere: nobody reads it any more."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, file.fileno())
    os.close(nothing)


def output() -> Terminal:
    """Standard output; as wide as a file should be where it is no terminal and nobody says how wide it is.

    `COLUMNS=0`, as some shells without a window have it, says nothing.
    """
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)
    is_told = (sys.stdout is not None and sys.stdout.isatty()) or "COLUMNS" in os.environ
    return Terminal(width=None if is_told else FILE_COLUMNS)


def write_whatever_the_encoding() -> None:
    """Have characters that the terminal's encoding lacks written as escapes rather than end the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class RowsRead:
    """Says every few seconds how many rows of a table were read; nothing of one that is read sooner."""

    def __init__(self, terminal: Console) -> None:
        self._terminal, self._said_at = terminal, time.monotonic()

    def __call__(self, rows: int) -> None:
        """So many rows were read by now."""
        if time.monotonic() - self._said_at >= ROWS_SAID_EVERY_S:
            self._said_at = time.monotonic()
            self._terminal.print(f"{rows:,} rows read")
