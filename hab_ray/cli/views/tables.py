"""Formats a table as LaTeX, Markdown, CSV or JSON, for papers and for other programs.

Commands pass cells as values; their format is the same for all commands. LaTeX needs the packages booktabs and
graphicx. An interval is sub- and superscript in LaTeX, in brackets in Markdown, two more columns in CSV, an object in
JSON.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from hab_ray.cli.views.terminal import print_cells
from hab_ray.inputs.csv_text import FORMULA
from hab_ray.visible import decimal, log_json, one_line, p_value


class TableFormat(StrEnum):
    """Output format of a table."""

    LATEX = "latex"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


class Estimate(NamedTuple):
    """A value and the ends of its interval; None if unknown."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Span(NamedTuple):
    """The first and last possible whole number, such as a rank."""

    first: int
    last: int


class PValue(float):
    """A p-value. LaTeX, Markdown and terminals show two of its digits."""


Cell = str | int | float | Estimate | Span | None


class Column(NamedTuple):
    """A column's name for programs, its title for readers, and the type of its cells if all may be unknown."""

    key: str
    title: str
    kind: type = str


def titled_columns(*keys: str, **titles: str) -> tuple[Column, ...]:
    """Return columns titled by their capitalised keys, or as `titles` says by key."""
    return tuple(Column(key, titles.get(key, key.replace("_", " ").capitalize())) for key in keys)


@dataclass(frozen=True)
class PaperTable:
    """A table with its caption, the unit of its estimates, and notes to print below it.

    `name` is for programs and for LaTeX's label. LaTeX and Markdown round estimates to `digits` decimals, or to as many
    as tell them from 0 and 1; CSV and JSON have them in full.
    """

    name: str
    caption: str
    unit: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    digits: int = 2

    def by_column(self) -> list[list[Cell]]:
        """Return the cells of each column."""
        return [[row[at] for row in self.rows] for at in range(len(self.columns))]

    def same(self) -> dict[str, Cell]:
        """Return the cells that are the same on every line, by the keys of their columns."""
        pairs = zip(self.columns, self.by_column(), strict=True)
        return {column.key: cells[0] for column, cells in pairs if len(set(cells)) == 1}

    def without_empty_columns(self) -> PaperTable:
        """Return the table without columns whose every cell is an empty text."""
        return self.without({key for key, cell in self.same().items() if cell == ""})

    def without(self, keys: Collection[str]) -> PaperTable:
        shown = [at for at, column in enumerate(self.columns) if column.key not in keys]
        rows = tuple(tuple(row[at] for at in shown) for row in self.rows)
        return replace(self, columns=tuple(self.columns[at] for at in shown), rows=rows)


def print_table(table: PaperTable, form: TableFormat | None, console: Console) -> None:
    """Print a table without wrapping or styling its lines; without a form, its rows alone, for people to read."""
    if form is None:
        print_cells(_for_terminal(table.without_empty_columns()), console)
    else:
        console.print(FORMATS[form](table), soft_wrap=True, markup=False, highlight=False, end="")


def as_latex(table: PaperTable) -> str:
    """Return a floating table with booktabs rules. Text is escaped: it is never read as a command or an option."""
    table = table.without_empty_columns()
    titles = " & ".join(_stacked(column.title) for column in table.columns)
    kinds = "".join("l" if _is_text(cells) else "r" for cells in table.by_column())
    notes = [
        rf"\par\smallskip\parbox{{\linewidth}}{{\footnotesize {_in_latex(note)}}}"
        for note in (table.unit, *table.notes)
    ]
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_in_latex(table.caption)}}}",
        rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', table.name.lower())}}}",
        r"\small",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        rf"{titles} \\",
        r"\midrule",
        *(" & ".join(_cell(cell, table.digits, _LATEX) for cell in row) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}}",
        *notes,
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def as_markdown(table: PaperTable) -> str:
    """Return a pipe table with numbers aligned right, the caption above and notes below."""
    table = table.without_empty_columns()
    cells = [[_cell(cell, table.digits, _MARKDOWN) for cell in row] for row in table.rows]
    titles = [_in_markdown(column.title) for column in table.columns]
    sides = [":---" if _is_text(cells) else "---:" for cells in table.by_column()]
    lines = [
        f"**{_in_markdown(table.caption)}**",
        "",
        *(f"| {' | '.join(line)} |" for line in (titles, sides, *cells)),
        "",
        *(f"- {_in_markdown(note)}" for note in (table.unit, *table.notes)),
    ]
    return "\n".join(lines) + "\n"


def as_csv(table: PaperTable) -> str:
    """Return CSV with the keys as titles. `KEY_low` and `KEY_high` hold intervals, `KEY_first` and `KEY_last` spans.

    Text that a spreadsheet would read as a formula is prefixed with '.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    ends = [_ENDS[_kind(*each)] for each in zip(table.columns, table.by_column(), strict=True)]
    writer.writerow(f"{column.key}{end}" for column, names in zip(table.columns, ends, strict=True) for end in names)
    for row in table.rows:
        writer.writerow(value for cell, names in zip(row, ends, strict=True) for value in _csv_values(cell, len(names)))
    return out.getvalue()


def as_json(table: PaperTable) -> str:
    """Return an object with the unit, the column titles by key, the notes, and one object per row."""
    keys = [column.key for column in table.columns]
    rows = [
        {
            key: cell._asdict() if isinstance(cell, Estimate | Span) else cell
            for key, cell in zip(keys, row, strict=True)
        }
        for row in table.rows
    ]
    whole = {
        "table": table.name,
        "caption": table.caption,
        "unit": table.unit,
        "columns": {column.key: column.title for column in table.columns},
        "rows": rows,
        "notes": list(table.notes),
    }
    return log_json(whole, indent=2) + "\n"


FORMATS: Mapping[TableFormat, Callable[[PaperTable], str]] = {
    TableFormat.LATEX: as_latex,
    TableFormat.MARKDOWN: as_markdown,
    TableFormat.CSV: as_csv,
    TableFormat.JSON: as_json,
}

_ENDS: Mapping[type, tuple[str, ...]] = {Estimate: ("", "_low", "_high"), Span: ("_first", "_last"), str: ("",)}
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",
    "*": "{*}",
    **{each: f"\\{each}" for each in "&%$#_"},
}
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$!&])")


def _in_latex(text: str) -> str:
    return "".join(_LATEX_ESCAPES.get(each, each) for each in one_line(text))


def _in_markdown(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", one_line(text))


def _stacked(title: str) -> str:
    """Stack a title's words, so that the column is as narrow as its numbers."""
    words = r" \\ ".join(map(_in_latex, one_line(title).split()))
    return rf"\shortstack{{{words}}}"


class _Markup(NamedTuple):
    escape: Callable[[str], str]
    number: str
    interval: str
    dash: str
    thousands: str


_LATEX = _Markup(_in_latex, "${}$", "${}_{{{}}}^{{{}}}$", "--", r"\,")
_MARKDOWN = _Markup(_in_markdown, "{}", "{} [{}, {}]", "-", ",")
_TERMINAL = _Markup(one_line, "{}", "{} ({} to {})", "-", ",")


def _for_terminal(table: PaperTable) -> Table:
    """Return the rows for a terminal; on a narrow one, estimates wrap between their numbers."""
    shown = Table(box=None, pad_edge=False)
    rows = [[_cell(cell, table.digits, _TERMINAL) for cell in row] for row in table.rows]
    for at, (column, cells) in enumerate(zip(table.columns, table.by_column(), strict=True)):
        words = [word for row in rows for word in row[at].split()]
        if _is_text(cells):
            shown.add_column(column.title.lower())
        else:
            shown.add_column(column.title.lower(), justify="right", min_width=max(map(len, words)))
    for row in rows:
        shown.add_row(*row)
    return shown


def _cell(cell: Cell, digits: int, markup: _Markup) -> str:
    match cell:
        case Estimate(value=float(value), low=float(low), high=float(high)):
            return markup.interval.format(*(decimal(number, digits) for number in (value, low, high)))
        case Span(first=first, last=last):
            return f"{first}" if first == last else f"{first}{markup.dash}{last}"
        case str():
            return markup.escape(cell)
        case PValue():
            return markup.number.format(p_value(cell))
        case Estimate(value=float(value)) | float(value):
            return markup.number.format(decimal(value, digits))
    return markup.dash if cell is None or isinstance(cell, Estimate) else f"{cell:,}".replace(",", markup.thousands)


def _is_text(cells: Sequence[Cell]) -> bool:
    return all(isinstance(cell, str) for cell in cells)


def _kind(column: Column, cells: Sequence[Cell]) -> type:
    """Return the type of a column's cells: Estimate, Span, or str for all plain values."""
    return next((type(cell) for cell in cells if isinstance(cell, Estimate | Span)), column.kind)


def _csv_values(cell: Cell, width: int) -> Iterator[str | int | float]:
    values: Sequence[str | int | float | None]
    match cell:
        case str():
            shown = one_line(cell)
            values = (f"'{shown}" if re.match(FORMULA, shown) else shown,)
        case Estimate() | Span():
            values = cell
        case _:
            values = (cell, *[None] * (width - 1))
    return ("" if value is None else value for value in values)
