"""`hab compare`: set two runs against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer
from rich.table import Table

from hab_ray.analysis.across.comparison import Matching, RunDifference, compare_runs, same_replies, told
from hab_ray.analysis.across.published import NOTES, compare_published, published_of
from hab_ray.analysis.across.settings import SettingApart, settings_apart
from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.summary import Summary, summarise
from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.options import FormatOption, JsonOption, RunFolderArgument
from hab_ray.cli.views.tables import Cell, Column, Estimate, PaperTable, TableFormat, print_table
from hab_ray.cli.views.terminal import print_cells
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.results import Run, open_run
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import SWEEP
from hab_ray.storage.simulated import simulated_notice
from hab_ray.visible import one_line

UNIT = (
    "Scores are from 0 to 1. A difference is the second run's mean less the first's, with a 95 % interval: over shared "
    "tests where there are any (paired), else of independent means. p is of the sign-flip test after Holm's correction."
)
_LONGEST = 60
PUBLISHED = "published"


def _in_words(apart: SettingApart) -> str:
    one, other = (one_line(text, _LONGEST) or "none" for text in (apart.first, apart.second))
    return f"{apart.setting}: {one} / {other}"


def _simulated(runs: Sequence[Run]) -> Iterator[str]:
    yield from dict.fromkeys(notice for run in runs if (notice := simulated_notice(run.location)))


def _notes(runs: tuple[Run, Run], rows: Sequence[RunDifference], apart: Sequence[SettingApart]) -> Iterator[str]:
    yield from _simulated(runs)
    if not apart:
        yield "Nothing that scores depend on was asked otherwise, as far as the runs' records say."
    yield from told(same_replies(*runs), *runs)
    ways = Counter(row.matching for row in rows if row.dimension != OVERALL)
    if ways[Matching.PAIRED] and ways[Matching.UNPAIRED]:
        yield "Some dimensions share tests and some do not: each row says which it was, overall rows hold both."
    if left := sum(row.first_alone + row.second_alone for row in rows if row.matching is Matching.PAIRED):
        yield f"Of tests that one run alone asked {left:,} marks are in no paired comparison."


def _matched(summary: Summary) -> Iterator[str]:
    for subject, one in published_of(summary.sent).items():
        yield f"{subject}: beside {one.subject}, {'of the paper' if one.in_paper else 'added after the paper'}"


def paper_table(
    rows: Sequence[RunDifference], titles: Mapping[str, str], caption: str, notes: Sequence[str]
) -> PaperTable:
    """A line for each subject, overall and by dimension."""
    columns = (
        Column("subject", "Subject"),
        Column("dimension", "Dimension"),
        Column("matching", "Compared"),
        Column("shared", "Shared tests"),
        Column("first_alone", "First alone"),
        Column("second_alone", "Second alone"),
        Column("first", "First"),
        Column("second", "Second"),
        Column("difference", "Difference"),
        Column("holm", "p"),
    )
    cells: list[tuple[Cell, ...]] = [
        (
            row.subject,
            titles.get(row.dimension, "Overall"),
            str(row.matching),
            row.shared,
            row.first_alone,
            row.second_alone,
            row.first,
            row.second,
            Estimate(row.difference, row.low, row.high),
            row.holm,
        )
        for row in rows
    ]
    return PaperTable("compare", caption, UNIT, columns, tuple(cells), tuple(notes), digits=3)


def _shown(rows: Sequence[RunDifference]) -> Table:
    table = Table("subject", "dimension", "compared", box=None, pad_edge=False)
    for title in ("shared", "alone", "first", "second", "difference", "95 %", "p"):
        table.add_column(title, justify="right")
    for row in rows:
        ends = "-" if row.low is None or row.high is None else f"{row.low:+.2f} to {row.high:+.2f}"
        table.add_row(
            *(one_line(each) for each in (row.subject, row.dimension, row.matching)),
            f"{row.shared:,}",
            f"{row.first_alone:,} / {row.second_alone:,}",
            *("-" if mean is None else f"{mean:.2f}" for mean in (row.first, row.second)),
            "-" if row.difference is None else f"{row.difference:+.2f}",
            ends,
            "-" if row.holm is None else f"{row.holm:.3g}",
        )
    return table


@ends_with_status
def command(
    first: RunFolderArgument,
    second: Annotated[
        Location,
        typer.Argument(
            parser=Location.of, metavar="RUN|published", help="Another run's folder, or the means of the paper."
        ),
    ],
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Show how far the same subjects' scores differ between two runs, and what the runs were asked otherwise.

    Dimensions of which both runs share tests are compared in pairs over these; the others as independent means, whose
    intervals are wider. Runs that share replies are said to. In the place of the second run `published` stands for the
    means that the benchmark's authors have published.
    """
    form = TableFormat.JSON if as_json else form
    run = open_run(first)
    if second == Location.of(PUBLISHED) and not open_folder(second).exists(SWEEP):
        summary = summarise(run)
        rows, apart, caption = compare_published(summary), [], "The published means"
        notes = [*_simulated([run]), *NOTES, *_matched(summary)]
    else:
        other = open_run(second)
        rows, apart = compare_runs(summarise(run), summarise(other)), settings_apart(run, other)
        notes, caption = list(_notes((run, other), rows, apart)), f"{other.name} ({other.location.name})"
    if form is not None:
        titles = {dimension: rubric.title for dimension, rubric in run.rubrics.items()}
        beside = f"{caption} beside {run.name} ({run.location.name})"
        print_table(paper_table(rows, titles, beside, [*map(_in_words, apart), *notes]), form, console)
        return Exit.COMPLETE
    say(f"first: {run.location}  second: {second}")
    if apart:
        say("What they were asked otherwise:", "bold")
        for each in apart:
            say(f"  {_in_words(each)}")
    for note in notes:
        say(note, "yellow")
    print_cells(_shown(rows), console)
    say(UNIT, "dim")
    return Exit.COMPLETE
