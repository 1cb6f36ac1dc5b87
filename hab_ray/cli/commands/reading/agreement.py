"""`hab agreement`: compare judges with human raters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from hab_ray.analysis.rating.statistics import FEW_RATERS
from hab_ray.analysis.summary import summarise
from hab_ray.analysis.tables.trust.people import PeopleAgreed, few_raters, people, sentence
from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.options import FormatOption, JsonOption, RunFolderArgument
from hab_ray.cli.views.tables import Cell, Column, Estimate, PaperTable, TableFormat, print_table, titled_columns
from hab_ray.errors import ConfigError, Exit
from hab_ray.results import Run, open_run
from hab_ray.storage.simulated import command_of, simulated_notice

SCORES_UNIT = (
    "Agreement is Krippendorff's alpha: 1 is perfect, 0 is chance. A difference is the judge's mean score (0..1) minus "
    "the people's. Intervals are 95 %."
)
UNIT = (
    "Agreement is Krippendorff's alpha or, for a judge on an issue, Cohen's kappa: 1 is perfect, 0 is chance. A "
    "difference is the judge's mean score (0..1), or the share of answers on which it names the issue, minus the "
    "people's; the panel's is the mean of its judges'. Kappa compares majorities; a tie counts half. Intervals are "
    "95 %."
)
_THEMSELVES, _ALL = "people among themselves", "all"
_MAX_LINES = 30
_SAID_ONCE = ("dimension", "issue", "rater", "answers", "raters")
DimensionsOption = Annotated[
    bool, typer.Option("--dimensions", help="Show every dimension too; csv and json always do.")
]
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
    unit = UNIT if any(row.issue for row in rows) else SCORES_UNIT
    return PaperTable("agreement", caption, unit, _COLUMNS, tuple(cells), tuple(_notes(run, rows)))


def narrowed(run: Run, rows: Sequence[PeopleAgreed], few: int | None) -> PaperTable:
    """Return the table without columns that say the same on every line; caption and notes say it, if need be.

    A last column without a title marks unreliable lines by `*`.
    """
    table = _marked(run, rows, few)
    same = {key: cell for key, cell in table.same().items() if key in _SAID_ONCE}
    caption = f"{table.caption}: {same['dimension']}" if "dimension" in same else table.caption
    counts = ", ".join(f"{same[key]} {key}" for key in ("answers", "raters") if key in same)
    extra = [f"Every line: {counts}."] if counts else []
    return replace(table.without(same), caption=caption, notes=(*table.notes, *extra, *_legend(rows, few)))


def _marked(run: Run, rows: Sequence[PeopleAgreed], few: int | None) -> PaperTable:
    table = paper_table(run, rows)
    marked = [(*cells[:-1], "*" * row.is_marked(few)) for cells, row in zip(table.rows, rows, strict=True)]
    return replace(table, columns=(*table.columns[:-1], Column("reliable", "")), rows=tuple(marked))


def _legend(rows: Sequence[PeopleAgreed], few: int | None) -> list[str]:
    """Explain the mark of unreliable lines, if there is one."""
    causes = "few answers or issues named" if few else "few answers, issues named or raters"
    return [f"* {causes}: do not rely on it."] if any(row.is_marked(few) for row in rows) else []


def _notes(run: Run, rows: Sequence[PeopleAgreed]) -> list[str]:
    raters = few_raters(rows)
    few = (
        "Only one person has rated. One says nothing about people in general: all intervals hold for this rater only."
        if raters == 1
        else f"Only {raters} people have rated. Fewer than {FEW_RATERS} say little about people in general: no line "
        "about all of them is reliable, and the interval of their agreement among themselves holds for these raters "
        "only."
    )
    notice = simulated_notice(run.location)
    return [*([notice] if notice else []), *([few] if raters else [])]


@ends_with_status
def command(
    folder: RunFolderArgument,
    form: FormatOption = None,
    as_json: JsonOption = False,
    dimensions: DimensionsOption = False,
    issues: IssuesOption = False,
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
            f"completed files under `raters:` in the sweep, and give the same `{command_of(run.location)}` again"
        )
    few = few_raters(rows)
    pooled = [row for row in rows if row.rater is None and (issues or row.issue is None)]
    shown = [row for row in pooled if dimensions or row.issue or row.dimension == rows[0].dimension]
    if form in (TableFormat.CSV, TableFormat.JSON):
        print_table(paper_table(run, rows), form, console)
    elif form is not None:
        print_table(narrowed(run, shown, few), form, console)
    else:
        _print(run, rows, shown)
    return Exit.COMPLETE


def _print(run: Run, rows: Sequence[PeopleAgreed], shown: Sequence[PeopleAgreed]) -> None:
    few = few_raters(rows)
    say(sentence(rows))
    for note in _notes(run, rows):
        say(note, "yellow")
    single = [row for row in rows if row.issue is None and row.rater and row.dimension == rows[0].dimension]
    single = single[:_MAX_LINES]
    by_issue = [row for row in shown if row.issue]
    parts = {"": [row for row in shown if not row.issue], "with each rater": single, "by issue": by_issue}
    for heading, lines in parts.items():
        if heading and lines:
            console.print(f"\n{heading}", style="bold")
        if lines:
            table = _marked(run, lines, few)
            print_table(table.without({"dimension", "issue"} & table.same().keys()), None, console)
    say(UNIT if by_issue else SCORES_UNIT, "dim")
    for legend in _legend([*shown, *single], few):
        say(legend, "dim")
    say("--dimensions and --issues add their lines, --format csv has all", "dim")
