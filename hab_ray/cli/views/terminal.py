"""The terminal that `hab` writes to. It prints all text as data: without markup, emoji codes or escape sequences."""

import io
import os
import sys
import time
from collections.abc import Iterable
from typing import IO, Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from hab_ray.visible import for_terminal, one_line

FILE_COLUMNS = 140
_REPORT_EVERY_S = 3.0
TABLE_COLUMNS = 76
"""The minimum width of a table: a narrower terminal wraps its lines, but not the words in its cells."""


def is_tty(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal; one that was closed before Python started is None."""
    return stream is not None and stream.isatty()


class Terminal(Console):
    """A console that is safe for text of unknown origin.

    Styles are passed beside the text, never in it. Strings are escaped before layout, so that tables stay aligned, and
    everything else (`Text`, `Live`) when it is rendered. `FORCE_COLOR` does not make a terminal of a pipe, which a
    program may read.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        is_terminal = is_tty(sys.stderr if stderr else sys.stdout)
        super().__init__(
            stderr=stderr, width=width, force_terminal=is_terminal, markup=False, emoji=False, highlight=False
        )

    def on_broken_pipe(self) -> None:
        """Discard further output, so that a reader that exits (`| head`) does not end a paid run."""
        self.quiet = True
        write_nowhere(self.file)

    @override
    def render_str(self, text: str, **settings: Any) -> Text:
        return super().render_str(for_terminal(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape every segment except rich's own control segments, with which the live view moves the cursor."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(for_terminal(segment.text), segment.style)


def print_line(text: str, console: Console, style: str | None = None) -> None:
    """Print `text` as one unwrapped line, with control characters and line breaks made harmless."""
    console.print(one_line(text), style=style, soft_wrap=True)


def print_cells(table: Table, console: Console) -> None:
    """Print a table at least `TABLE_COLUMNS` wide, so that a narrow terminal still shows names and figures whole."""
    if console.width < TABLE_COLUMNS:
        natural = console.measure(table, options=console.options.update_width(TABLE_COLUMNS)).maximum
        table.width = min(natural, TABLE_COLUMNS)
    console.print(table, crop=False)


def write_nowhere(file: IO[str]) -> None:
    """Discard everything that is written to a file from now on, and what is still in its buffer."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, file.fileno())
    os.close(devnull)


def output() -> Terminal:
    """Return standard output, `FILE_COLUMNS` wide unless it is a terminal or `COLUMNS` sets a width.

    `COLUMNS=0`, which some shells without a window set, counts as unset.
    """
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)
    has_width = is_tty(sys.stdout) or "COLUMNS" in os.environ
    return Terminal(width=None if has_width else FILE_COLUMNS)


def escape_unencodable() -> None:
    """Write characters that the encoding of standard output lacks as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class RowsRead:
    """Prints the number of rows read so far every few seconds, so never for a table that is read quickly."""

    def __init__(self, terminal: Console) -> None:
        self._terminal, self._printed_at = terminal, time.monotonic()

    def __call__(self, rows: int) -> None:
        if time.monotonic() - self._printed_at >= _REPORT_EVERY_S:
            self._printed_at = time.monotonic()
            self._terminal.print(f"{rows:,} rows read")
