"""`hab import`: convert published wording and data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hab_ray.cli.ending import ends_with_status, errors, say
from hab_ray.cli.views.terminal import RowsRead
from hab_ray.errors import ConfigError, Exit

if TYPE_CHECKING:
    from hab_ray.exchange.imports.source import TableSource

command = typer.Typer(
    help="Convert the published wording and data, or your own, into files that sweeps read.", no_args_is_help=True
)
LicenceOption = Annotated[
    str, typer.Option(metavar="LICENCE", help="The licence of the imported material, instead of the one found there.")
]


@command.command("rubrics")
@ends_with_status
def rubrics_command(
    checkout: Annotated[Path, typer.Argument(help="The folder of a checkout of the published code.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new folder of rubrics.")] = Path("imported_rubrics"),
    licence: LicenceOption = "",
    execute_unknown: Annotated[
        bool, typer.Option("--execute-unknown", help="Execute code other than the published one; read it first.")
    ] = False,
    reading: Annotated[
        str,
        typer.Option(
            help="Read replies strictly, as for other rubrics, or as the published code does.",
            metavar="strict|published",
        ),
    ] = "strict",
) -> Exit:
    """Convert published wording into rubrics.

    Their prompts equal those of the published code byte for byte. Only files with the published digests are
    executed, in a separate process. The published prompts do not fence off foreign text; `hab rubric check`,
    reports and exports say so. Name the folder as `rubrics:` in a sweep file.
    """
    from hab_ray.exchange.imports.rubrics import ImportWishes, import_rubrics
    from hab_ray.rubric import Reading

    if reading not in list(Reading):
        raise ConfigError(f"--reading {reading}: give one of {', '.join(Reading)}")
    if execute_unknown:
        errors.print("Executing code other than the published one: its sandbox stops accidents, not malice")
    notes = import_rubrics(checkout, out, ImportWishes(licence, execute_unknown, Reading(reading)))
    for note in notes:
        say(note)
    say(f"{out}: written; compare the list above with the code, then name `rubrics: {out}` in a sweep file")
    return Exit.COMPLETE


@dataclass(frozen=True)
class TableOptions:
    """Where a table of rows is, and how to read it."""

    source: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|published",
            help="A .parquet, .csv, .jsonl or .json file, or several with the same columns, or the published rows; "
            "published-evaluations and published-annotations name one of the two data sets. Without a column for the "
            "dimension, the file's name is the dimension.",
        ),
    ]
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OURS=THEIRS",
            help="Map a column, such as prompt=question, if its name is unknown; prompt=1 is the first column of a CSV "
            "file without a header. Repeatable.",
        ),
    ] = None
    value: Annotated[
        list[str] | None,
        typer.Option(metavar="OURS=TEXT", help="A value for all rows, such as subject=o4-mini. Repeatable."),
    ] = None
    licence: LicenceOption = ""
    revision: Annotated[
        str,
        typer.Option(
            metavar="COMMIT", help="The commit of `published` to read. Default: the newest, which is recorded."
        ),
    ] = ""
    rubrics: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of rubrics that the tests are for.")
    ] = None
    scale: str = ""

    def table(self) -> TableSource:
        """Return the source of the rows; raise ConfigError if an option is malformed."""
        from hab_ray.exchange.imports.source import TableSource
        from hab_ray.given.ratings import Scale
        from hab_ray.given.rows import ROWS_READ

        columns, values = _pairs("--column", self.column or ()), _pairs("--value", self.value or ())
        try:
            scale = Scale.of(self.scale) if self.scale else None
        except ValueError as error:
            raise ConfigError(f"--scale: {error}") from None
        ROWS_READ.set(RowsRead(errors))
        more = tuple(self.source[1:])
        return TableSource(self.source[0], columns, self.licence, self.revision, values, more, scale)


@dataclass(frozen=True)
class ScoreOptions(TableOptions):
    """Those of a table with scores."""

    scale: Annotated[
        str,
        typer.Option(
            metavar="LOW:HIGH", help="The scale of the scores, such as 1:7; fractions are allowed. Default: 0:10."
        ),
    ] = ""


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in given:
        name, _, value = each.partition("=")
        if not name or not value or name in pairs:
            raise ConfigError(f"{option} {each}: write NAME=VALUE, each name once")
        pairs[name] = value
    return pairs


def _new_file(rows: str) -> Any:
    return typer.Option(metavar="FILE", help=f"The new file of {rows}, .parquet or .jsonl.")


@command.command("tests")
@ends_with_status
def tests_command(
    out: Annotated[Path, _new_file("tests")] = Path("tests.parquet"),
    *,
    options: TableOptions,
) -> Exit:
    """Convert queries into a file for `tests:`.

    The file has the distinct queries of the rows. FILE.source.yaml beside it records their origin: source, licence,
    canaries, columns and counts.
    """
    from hab_ray.exchange.imports.answers import import_tests

    notes = import_tests(options.table(), out, options.rubrics)
    return _print_result(notes, out, f"`tests: {out}`")


@command.command("responses")
@ends_with_status
def responses_command(
    out: Annotated[Path, _new_file("answers")] = Path("responses.parquet"),
    *,
    options: TableOptions,
) -> Exit:
    """Convert answers into a file for `responses:`.

    Your sweep's judges then judge them. Error texts that the published code wrote in place of an answer count as
    failed; null is an empty answer. Import the answers' scores by `hab import verdicts`. FILE.source.yaml records
    the origin of the rows.
    """
    from hab_ray.exchange.imports.answers import import_responses

    notes = import_responses(options.table(), out, options.rubrics)
    return _print_result(notes, out, f"`responses: {out}`")


@command.command("verdicts")
@ends_with_status
def verdicts_command(
    out: Annotated[Path, _new_file("verdicts")] = Path("verdicts.parquet"),
    *,
    options: ScoreOptions,
) -> Exit:
    """Convert an earlier study's verdicts for `raters:`.

    Scores are in one column (score, with a column rater), in one column per judge (--column score:o3=NAME), or in
    cells with objects of scores by judge (--column scores=NAME). If there is a column text, each verdict is joined to
    the answer with that text. A judge is called "published NAME" in the file, or "earlier NAME" if the table is a
    run's export. A verdict whose reply is an error text, or has no JSON or no issues, counts as failed and enters no
    mean. Duplicate rows are dropped and counted.
    """
    from hab_ray.exchange.imports.ratings import import_verdicts

    notes = import_verdicts(options.table(), out, options.rubrics)
    return _print_result(notes, out, f"`raters: [{out}]`")


@command.command("ratings")
@ends_with_status
def ratings_command(
    out: Annotated[Path, _new_file("ratings")] = Path("ratings.parquet"),
    comments: Annotated[bool, typer.Option("--comments", help="Keep raters' comments, which may name them.")] = False,
    *,
    options: ScoreOptions,
) -> Exit:
    """Convert people's ratings for `raters:`.

    Ratings are whole numbers from 0 to 10, as judges score, or any numbers on a --scale. They are in one column (score,
    with a column rater), in one column per person (--column score:NAME=NAME), or in cells with lists of objects with
    rater, rating and comment (--column annotations=NAME). The file calls people person-1, person-2 and so on; no name
    can be recovered from it.
    """
    from hab_ray.exchange.imports.ratings import import_ratings

    notes = import_ratings(options.table(), out, options.rubrics, with_comments=comments)
    return _print_result(notes, out, f"`raters: [{out}]`")


def _print_result(notes: Iterable[str], out: Path, key: str) -> Exit:
    for note in notes:
        say(note)
    say(f"{out}: written; name {key} in a sweep file")
    return Exit.COMPLETE
