"""`hab import`: read published wording and data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hab_ray.cli.ending import ends_with_status, errors, say
from hab_ray.cli.views.terminal import RowsRead
from hab_ray.errors import ConfigError, Exit

if TYPE_CHECKING:
    from hab_ray.exchange.imports.source import Imported, TableSource

command = typer.Typer(help="The published wording and data as files that sweeps read.", no_args_is_help=True)
LicenceOption = Annotated[
    str, typer.Option(help="The licence of what is imported, instead of what is found there; else it is unknown.")
]


@command.command("rubrics")
@ends_with_status
def rubrics_command(
    checkout: Annotated[Path, typer.Argument(help="The folder of a checkout of the published code.")],
    out: Annotated[Path, typer.Option(help="The new folder of rubrics.")] = Path("imported_rubrics"),
    licence: LicenceOption = "",
    execute_unknown: Annotated[
        bool, typer.Option("--execute-unknown", help="Execute code that is not the published one; read it first.")
    ] = False,
    reading: Annotated[
        str,
        typer.Option(
            help="How replies are read: as ours, or as the published code reads them.", metavar="strict|published"
        ),
    ] = "strict",
) -> Exit:
    """Read the wording of a checkout into a folder of rubrics, whose prompts are sent byte for byte as that code would.

    Files with the published digests are executed, in a process of their own; others are refused. Its prompts carry no
    fence around foreign text; `hab rubric check`, reports and exports say so.
    Name the folder as `rubrics:` in a sweep file.
    """
    from hab_ray.exchange.imports.rubrics import ImportWishes, import_rubrics
    from hab_ray.rubric import Reading

    if reading not in list(Reading):
        raise ConfigError(f"--reading {reading}: it is one of {', '.join(Reading)}")
    if execute_unknown:
        errors.print("Code that is not the published one is executed: the bounds around it stop accidents, not intent")
    found = import_rubrics(checkout, out, ImportWishes(licence, execute_unknown, Reading(reading)))
    for note in found.notes:
        say(note)
    say(f"{out}: written; compare the list above with the code, then name `rubrics: {out}` in a sweep file")
    return Exit.COMPLETE


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """`name=value` as users write it, each name once."""
    pairs: dict[str, str] = {}
    for each in given:
        name, _, value = each.partition("=")
        if not name or not value or name in pairs:
            raise ConfigError(f"{option} {each}: write NAME=VALUE, each name once")
        pairs[name] = value
    return pairs


SourceArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...|published",
        help="A .parquet, .csv, .jsonl or .json file, or several with the same columns, or the published rows; "
        "published-evaluations and published-annotations name one of the two data sets. Where no column holds the "
        "dimension, the file's name says it.",
    ),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OURS=THEIRS",
        help="Which column is ours, such as prompt=question, where names do not say; prompt=1 is the first of a CSV "
        "file without a line of names.",
    ),
]
ValueOption = Annotated[
    list[str] | None,
    typer.Option(metavar="OURS=TEXT", help="What holds for all rows where no column says it, such as subject=o4-mini."),
]
RevisionOption = Annotated[
    str,
    typer.Option(metavar="COMMIT", help="Of `published`: the commit to read, else the newest; it is kept and shown."),
]
ScaleOption = Annotated[
    str,
    typer.Option(metavar="LOW:HIGH", help="The scale of the scores, such as 1:7, if not 0:10; need not be whole then."),
]
RubricsOption = Annotated[Path | None, typer.Option(help="A folder of rubrics that the tests are for.")]


@command.command("tests")
@ends_with_status
def tests_command(
    source: SourceArgument,
    out: Annotated[Path, typer.Option(help="The new file of tests, .parquet or .jsonl.")] = Path("tests.parquet"),
    column: ColumnOption = None,
    value: ValueOption = None,
    licence: LicenceOption = "",
    revision: RevisionOption = "",
    rubrics: RubricsOption = None,
) -> Exit:
    """Read the distinct queries of published rows into a file that a sweep names as `tests:`.

    Beside it, FILE.source.yaml says where they come from: source, licence, canaries, columns and counts.
    """
    from hab_ray.exchange.imports.answers import import_tests

    return _told(import_tests(_table(source, column, value, licence, revision), out, rubrics), f"`tests: {out}`")


@command.command("responses")
@ends_with_status
def responses_command(
    source: SourceArgument,
    out: Annotated[Path, typer.Option(help="The new file of answers, .parquet or .jsonl.")] = Path("responses.parquet"),
    column: ColumnOption = None,
    value: ValueOption = None,
    licence: LicenceOption = "",
    revision: RevisionOption = "",
    rubrics: RubricsOption = None,
) -> Exit:
    """Read published answers into a file that a sweep names as `responses:`, so that judges read them again.

    What the published code wrote in the place of an answer counts as failed, and null is an empty answer. The scores
    that the answers got are imported by `hab import verdicts`. FILE.source.yaml says where the rows come from.
    """
    from hab_ray.exchange.imports.answers import import_responses

    found = import_responses(_table(source, column, value, licence, revision), out, rubrics)
    return _told(found, f"`responses: {out}`")


@command.command("verdicts")
@ends_with_status
def verdicts_command(
    source: SourceArgument,
    out: Annotated[Path, typer.Option(help="The new file of verdicts, .parquet or .jsonl.")] = Path("verdicts.parquet"),
    column: ColumnOption = None,
    value: ValueOption = None,
    licence: LicenceOption = "",
    revision: RevisionOption = "",
    rubrics: RubricsOption = None,
    scale: ScaleOption = "",
) -> Exit:
    """Read the verdicts of an earlier study's judges into a file that a sweep names under `raters:`.

    Scores are in a column (score, and rater beside it), in one for each judge (--column score:o3=NAME), or in cells
    that hold objects of scores by judge (--column scores=NAME). Each is joined to the answer with the same text, where
    a column has it (text). A judge is called "published NAME" in the file. Where a reply is an error text, or holds no
    JSON or no issues, the verdict has failed and enters no mean. Rows that repeat others are left out and counted.
    """
    from hab_ray.exchange.imports.ratings import import_verdicts

    found = import_verdicts(_table(source, column, value, licence, revision, scale), out, rubrics)
    return _told(found, f"`raters: [{out}]`")


@command.command("ratings")
@ends_with_status
def ratings_command(
    source: SourceArgument,
    out: Annotated[Path, typer.Option(help="The new file of ratings, .parquet or .jsonl.")] = Path("ratings.parquet"),
    column: ColumnOption = None,
    value: ValueOption = None,
    comments: Annotated[bool, typer.Option("--comments", help="Keep what people wrote; it may name them.")] = False,
    licence: LicenceOption = "",
    revision: RevisionOption = "",
    rubrics: RubricsOption = None,
    scale: ScaleOption = "",
) -> Exit:
    """Read people's ratings into a file that a sweep names under `raters:`.

    Ratings are whole numbers from 0 to 10, as judges score, or any of a --scale: in a column (score, and rater beside
    it), in one for each person (--column score:NAME=NAME), or in cells that hold lists of objects with rater, rating
    and comment (--column annotations=NAME). In the file people are called person-1, person-2 and so on, and nothing
    leads back to a name.
    """
    from hab_ray.exchange.imports.ratings import import_ratings

    asked = _table(source, column, value, licence, revision, scale)
    return _told(import_ratings(asked, out, rubrics, with_comments=comments), f"`raters: [{out}]`")


def _table(
    source: Sequence[str],
    column: Sequence[str] | None,
    value: Sequence[str] | None,
    licence: str,
    revision: str,
    scale: str = "",
) -> TableSource:
    from hab_ray.exchange.imports.source import TableSource
    from hab_ray.given.ratings import Scale

    columns, values = _pairs("--column", column or ()), _pairs("--value", value or ())
    try:
        known = Scale.of(scale) if scale else None
    except ValueError as error:
        raise ConfigError(f"--scale: {error}") from None
    told = RowsRead(errors)
    return TableSource(source[0], columns, licence, revision, values, told, tuple(source[1:]), known)


def _told(found: Imported, key: str) -> Exit:
    for note in found.notes:
        say(note)
    say(f"{found.path}: written; name {key} in a sweep file")
    return Exit.COMPLETE
