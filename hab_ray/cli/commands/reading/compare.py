"""`hab compare`: compare the scores of two runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from hab_ray.analysis.across.comparison import (
    Matching,
    RunDifference,
    compare_runs,
    describe,
    same_replies,
    settings_apart,
    share_tests,
)
from hab_ray.analysis.across.published import NOTES, compare_published, published, published_of
from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.summary import Summary, summarise
from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.options import FormatOption, JsonOption, RunFolderArgument, run_folder
from hab_ray.cli.views.tables import Cell, Estimate, PaperTable, PValue, TableFormat, print_table, titled_columns
from hab_ray.config.changes import Change
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.results import Run, open_run
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import SWEEP
from hab_ray.storage.simulated import simulated_notice
from hab_ray.visible import counted, one_line

_NO_SCORES = "No subject has a score of a shared test in both runs."
_NO_TESTS = (
    "The runs share no test: generated tests differ from store to store, with the settings and texts that make them, "
    "and with the seed of a rehearsal. To compare in pairs, give both runs the same `tests:`."
)
UNIT = (
    "Scores are from 0 to 1. A difference is the second run's mean minus the first's, with a 95 % interval: over "
    "shared tests if there are any (paired), else of independent means. Intervals are not corrected for the number of "
    "rows."
)
_P = " p is of the sign-flip test after Holm's correction."
_MAX_SETTING = 100
PUBLISHED = "published"
_COLUMNS = titled_columns(
    *("subject", "dimension", "matching", "shared", "first_alone", "second_alone", "first", "second", "difference"),
    "holm",
    matching="Compared",
    shared="Shared tests",
    holm="p",
)


def _setting_line(apart: Change) -> str:
    first, second = (one_line(text, _MAX_SETTING) or "none" for text in (apart.before, apart.now))
    return f"{apart.key}: {first} / {second}"


def _simulated_notices(runs: Sequence[Run]) -> Iterator[str]:
    yield from dict.fromkeys(notice for run in runs if (notice := simulated_notice(run.location)))


def _notes(runs: tuple[Run, Run], rows: Sequence[RunDifference], apart: Sequence[Change]) -> Iterator[str]:
    yield from _simulated_notices(runs)
    if not apart:
        yield "According to the runs' records, no setting that scores depend on differs."
    if not any(row.shared for row in rows):
        yield _NO_SCORES if share_tests(*runs) else _NO_TESTS
    yield from describe(same_replies(*runs), *runs)
    yield from _left_out(rows, [name for run in runs for name in run.dimensions])
    yield from _subjects_left_out(rows, [name for run in runs for name in run.subjects], "in one run alone")
    rows = [row for row in rows if row.dimension != OVERALL]
    matchings = Counter(row.matching for row in rows)
    if matchings[Matching.PAIRED] and matchings[Matching.UNPAIRED]:
        yield "Some dimensions share tests and some do not: each row says which, overall rows combine both."
    if left := sum(row.first_alone + row.second_alone for row in rows if row.matching is Matching.PAIRED):
        yield f"Paired comparisons leave out {counted(left, 'score')} of tests without a score in the other run."


def _left_out(rows: Sequence[RunDifference], dimensions: Iterable[str]) -> Iterator[str]:
    """Say which of both sides' dimensions are not in the overall rows, if there are such rows."""
    compared = {row.dimension for row in rows}
    if OVERALL in compared and (missing := [name for name in dict.fromkeys(dimensions) if name not in compared]):
        yield (
            f"Overall rows are means over the shared dimensions alone. They leave out {', '.join(missing)}, so they "
            "differ from overall scores that include these, as in a leaderboard."
        )


def _subjects_left_out(rows: Sequence[RunDifference], subjects: Iterable[str], why: str) -> Iterator[str]:
    compared = {row.subject for row in rows}
    if missing := [name for name in dict.fromkeys(subjects) if name not in compared]:
        yield (
            f"{counted(len(missing), 'subject')} left out, {why}: {', '.join(missing)}. Subjects are matched by their "
            "names: by `name:` in a sweep, or by the column of subjects in a file of answers."
        )


def _published_matches(summary: Summary) -> Iterator[str]:
    for subject, match in published_of(summary.sent).items():
        source = "of the paper" if match.in_paper else "added after the paper"
        yield f"{subject}: compared with {match.subject}, {source}"


def paper_table(
    rows: Sequence[RunDifference], titles: Mapping[str, str], caption: str, notes: Sequence[str]
) -> PaperTable:
    """Return a line per subject, overall and by dimension."""
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
            None if row.holm is None else PValue(row.holm),
        )
        for row in rows
    ]
    table = PaperTable("compare", caption, UNIT, _COLUMNS, tuple(cells), tuple(notes), digits=3)
    return replace(table, unit=UNIT + _P) if any(row.holm is not None for row in rows) else table


@ends_with_status
def command(
    first: RunFolderArgument,
    second: Annotated[
        Location,
        typer.Argument(
            parser=run_folder, metavar="RUN|published", help="Another run's folder, or the published means."
        ),
    ],
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Show the differences of the same subjects' scores between two runs, and the settings in which the runs differ.

    Dimensions with tests in both runs are compared in pairs over these tests; the others as independent means, with
    wider intervals. The output says if the runs share replies. As the second run, `published` means the means that the
    benchmark's authors have published.
    """
    form = TableFormat.JSON if as_json else form
    run = open_run(first)
    if second == Location.of(PUBLISHED) and not open_folder(second).exists(SWEEP):
        summary = summarise(run)
        rows, apart, caption = compare_published(summary), [], "The published means"
        left_out = [
            *_left_out(rows, [*run.dimensions, *published()[0].means]),
            *_subjects_left_out(rows, run.subjects, "without published means"),
        ]
        notes = [*_simulated_notices([run]), *NOTES, *left_out, *_published_matches(summary)]
    else:
        other = open_run(second)
        rows, apart = compare_runs(summarise(run), summarise(other)), settings_apart(run, other)
        notes, caption = list(_notes((run, other), rows, apart)), f"{other.name} ({other.location.name})"
    titles = {dimension: rubric.title for dimension, rubric in run.rubrics.items()}
    whole_caption = f"{caption} compared with {run.name} ({run.location.name})"
    table = paper_table(rows, titles, whole_caption, [*map(_setting_line, apart), *notes])
    if form is not None:
        print_table(table, form, console)
        return Exit.COMPLETE
    say(f"first: {run.location}  second: {second}")
    if apart:
        say("Settings that differ:", "bold")
        for each in apart:
            say(f"  {_setting_line(each)}")
    for note in notes:
        say(note, "yellow")
    print_table(table.without({key for key, cell in table.same().items() if cell is None}), None, console)
    say(table.unit, "dim")
    return Exit.COMPLETE
