"""`hab agreement`: compare judges with human raters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.table import Table

from hab_ray.analysis.rating.statistics import FEW_RATERS
from hab_ray.analysis.summary import summarise
from hab_ray.analysis.tables.people import PeopleAgreed, few_raters, people
from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.options import FormatOption, JsonOption, RunFolderArgument
from hab_ray.cli.views.tables import Cell, Estimate, PaperTable, TableFormat, print_table, titled_columns
from hab_ray.cli.views.terminal import print_cells
from hab_ray.errors import ConfigError, Exit
from hab_ray.results import Run, open_run
from hab_ray.storage.simulated import simulated_notice
from hab_ray.visible import one_line

UNIT = (
    "Agreement is Krippendorff's alpha or, for a judge on an issue, Cohen's kappa: 1 is perfect, 0 is chance. A "
    "difference is the judge's mean score (0..1), or the share of answers on which it names the issue, minus the "
    "people's; the panel's is the mean of its judges'. Kappa compares majorities; a tie counts half. Intervals are "
    "95 %."
)
_THEMSELVES, _ALL = "people among themselves", "all"
_MAX_LINES, _MAX_ISSUES = 30, 8
IssuesOption = Annotated[bool, typer.Option("--issues", help="Show every issue too; csv and json always do.")]
_COLUMNS = titled_columns(
    *("dimension", "issue", "judge", "rater", "answers", "raters", "agreement", "difference", "reliable"),
    rater="People",
)


def paper_table(run: Run, rows: Sequence[PeopleAgreed]) -> PaperTable:
    """Return a line per judge, dimension and issue with its agreement with people."""
    titles = {dimension: rubric.title for dimension, rubric in run.rubrics.items()}
    cells: list[tuple[Cell, ...]] = [
        (
            titles.get(row.dimension, "Overall"),
            row.issue or "",
            row.judge or _THEMSELVES,
            row.rater or _ALL,
            row.answers,
            row.raters,
            Estimate(row.agreement, row.low, row.high),
            Estimate(row.difference, row.difference_low, row.difference_high),
            "yes" if row.reliable else "no",
        )
        for row in rows
    ]
    caption = f"Agreement of people and judges, {run.name}"
    return PaperTable("agreement", caption, UNIT, _COLUMNS, tuple(cells), tuple(_notes(run, rows)))


def _notes(run: Run, rows: Sequence[PeopleAgreed]) -> list[str]:
    raters = few_raters(rows)
    few = (
        f"Only {raters} people have rated. Fewer than {FEW_RATERS} say little about people in general: no line about "
        "all of them is reliable, and the interval of their agreement among themselves holds for these raters only."
    )
    notice = simulated_notice(run.location)
    return [*([notice] if notice else []), *([few] if raters else [])]


def _table(rows: Sequence[PeopleAgreed], few: int | None) -> Table:
    table = Table("dimension", "issue", "judge", "people", box=None, pad_edge=False)
    for title in ("answers", "agreement", "95 %", "difference", "95 %"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            *(one_line(each) for each in (row.dimension, row.issue or "", row.judge or _THEMSELVES)),
            one_line(row.rater or f"{_ALL} {row.raters}"),
            f"{row.answers:,}",
            ("-" if row.agreement is None else f"{row.agreement:z.2f}")
            + ("" if row.reliable or (few and row.has_enough) else "*"),
            _interval(row.low, row.high, "z.2f"),
            "-" if row.difference is None else f"{row.difference:+z.2f}",
            _interval(row.difference_low, row.difference_high, "+z.2f"),
        )
    return table


def _interval(low: float | None, high: float | None, form: str) -> str:
    return "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"


@ends_with_status
def command(
    folder: RunFolderArgument, form: FormatOption = None, as_json: JsonOption = False, issues: IssuesOption = False
) -> Exit:
    """Show how well people agree with one another, with each judge and with the panel: alpha, kappa, differences.

    The people are the raters in the files under `raters:` of the sweep; `hab annotate sheet` makes their forms.
    Intervals generalise to other tests and other raters.
    """
    form = TableFormat.JSON if as_json else form
    run = open_run(folder)
    rows = people(summarise(run))
    if not rows:
        raise ConfigError(
            f"{run.location}: its answers have no human ratings; make forms by `hab annotate sheet`, name the "
            "completed files under `raters:` in the sweep, and give the same `hab run` again"
        )
    pooled = [row for row in rows if row.rater is None and (issues or row.issue is None)]
    if form is not None:
        is_full = form in (TableFormat.CSV, TableFormat.JSON)
        print_table(paper_table(run, rows if is_full else pooled), form, console)
        return Exit.COMPLETE
    for note in _notes(run, rows):
        say(note, "yellow")
    few = few_raters(rows)
    for heading, shown in _parts(rows, pooled):
        if heading:
            console.print(f"\n{heading}", style="bold")
        print_cells(_table(shown, few), console)
    say(UNIT, "dim")
    marked = "few answers or issues named" if few else "few answers, issues named or raters"
    say(f"* {marked}; --issues shows every issue, --format csv every rater and issue", "dim")
    return Exit.COMPLETE


def _parts(rows: Sequence[PeopleAgreed], pooled: Sequence[PeopleAgreed]) -> Iterator[tuple[str, list[PeopleAgreed]]]:
    """Yield the tables for a terminal with their headings: all lines of `pooled`, or else the worst issues only."""
    yield "", [row for row in pooled if row.issue is None]
    if single := [r for r in rows if r.issue is None and r.rater is not None and r.dimension == rows[0].dimension]:
        yield "with each rater", single[:_MAX_LINES]
    if by_issue := [row for row in pooled if row.issue is not None]:
        yield "by issue", by_issue
        return
    found = [row for row in rows if row.rater is None and None not in (row.issue, row.judge, row.agreement)]
    if worst := sorted(found, key=lambda row: row.agreement or 0.0):
        yield "the issues on which a judge agrees least with people", worst[:_MAX_ISSUES]
