"""`hab agreement`: show how far people and judges agree."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from hab_ray.analysis.rating.statistics import FEW_RATERS
from hab_ray.analysis.summary import summarise
from hab_ray.analysis.tables.people import PeopleAgreed, people
from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.options import FormatOption, JsonOption, RunFolderArgument
from hab_ray.cli.views.tables import Cell, Column, Estimate, PaperTable, TableFormat, print_table
from hab_ray.cli.views.terminal import print_cells
from hab_ray.errors import ConfigError, Exit
from hab_ray.results import Run, open_run
from hab_ray.storage.simulated import simulated_notice
from hab_ray.visible import one_line

UNIT = (
    "Agreement is Krippendorff's alpha, of a judge on an issue Cohen's kappa: 1 is perfect, 0 chance. A difference is "
    "the judge's mean score (0..1), or the share of answers on which it names the issue, less the people's. Intervals "
    "are 95 % ones."
)
_THEMSELVES, _ALL = "people among themselves", "all"
_MAX_LINES, _MAX_ISSUES = 30, 8


def paper_table(run: Run, rows: Sequence[PeopleAgreed]) -> PaperTable:
    """One line for each judge beside people: in what dimension, on what issue, how many answers, how far they agree."""
    columns = (
        Column("dimension", "Dimension"),
        Column("issue", "Issue"),
        Column("judge", "Judge"),
        Column("rater", "People"),
        Column("answers", "Answers"),
        Column("raters", "Raters"),
        Column("agreement", "Agreement"),
        Column("difference", "Difference"),
        Column("reliable", "Reliable"),
    )
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
    return PaperTable("agreement", caption, UNIT, columns, tuple(cells), tuple(_notes(run, rows)))


def _notes(run: Run, rows: Sequence[PeopleAgreed]) -> list[str]:
    raters = max(row.raters for row in rows)
    few = (
        f"Only {raters} people have rated: with fewer than {FEW_RATERS} little can be said of people at large, and the "
        "interval of their agreement among themselves is for these alone."
    )
    notice = simulated_notice(run.location)
    return [*([notice] if notice else []), *([few] if raters < FEW_RATERS else [])]


def _shown(rows: Sequence[PeopleAgreed]) -> Table:
    table = Table("dimension", "issue", "judge", "people", box=None, pad_edge=False)
    for title in ("answers", "agreement", "95 %", "difference", "95 %"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            *(one_line(each) for each in (row.dimension, row.issue or "", row.judge or _THEMSELVES)),
            one_line(row.rater or f"{_ALL} {row.raters}"),
            f"{row.answers:,}",
            ("-" if row.agreement is None else f"{row.agreement:.2f}") + ("" if row.reliable else "*"),
            _ends(row.low, row.high, ".2f"),
            "-" if row.difference is None else f"{row.difference:+.2f}",
            _ends(row.difference_low, row.difference_high, "+.2f"),
        )
    return table


def _ends(low: float | None, high: float | None, form: str) -> str:
    return "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"


@ends_with_status
def command(folder: RunFolderArgument, form: FormatOption = None, as_json: JsonOption = False) -> Exit:
    """Show how far people agree with one another, with each judge and with the panel: alpha, kappa, differences.

    People are those whose ratings the sweep names under `raters:`; `hab annotate sheet` makes the forms. Intervals hold
    for other tests and other raters.
    """
    form = TableFormat.JSON if as_json else form
    run = open_run(folder)
    rows = people(summarise(run))
    if not rows:
        raise ConfigError(
            f"{run.location}: nobody has rated its answers; `hab annotate sheet` draws some, and files named under "
            "`raters:` in the sweep are joined by the same `hab run`"
        )
    if form is not None:
        every = form in (TableFormat.CSV, TableFormat.JSON)
        print_table(paper_table(run, rows if every else [row for row in rows if row.rater is None]), form, console)
        return Exit.COMPLETE
    for note in _notes(run, rows):
        say(note, "yellow")
    scores = [row for row in rows if row.issue is None]
    print_cells(_shown([row for row in scores if row.rater is None]), console)
    if single := [row for row in scores if row.rater is not None and row.dimension == rows[0].dimension]:
        console.print("\nbeside each of them", style="bold")
        print_cells(_shown(single[:_MAX_LINES]), console)
    known = [row for row in rows if None not in (row.issue, row.judge, row.agreement) and row.rater is None]
    if worst := sorted(known, key=lambda row: row.agreement or 0.0):
        console.print("\nthe issues on which a judge agrees least with people", style="bold")
        print_cells(_shown(worst[:_MAX_ISSUES]), console)
    say(UNIT, "dim")
    say("* few answers, namings or raters; every rater and issue: --format csv", "dim")
    return Exit.COMPLETE
