"""`hab import`: the published benchmark's wording and data, as files that sweeps read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status
from hab_ray.cli.terminal import output
from hab_ray.errors import ConfigError, Exit

import_app = typer.Typer(
    help="The published wording and data as files that sweeps read; nothing is executed.", no_args_is_help=True
)
console = output()
LicenceOption = Annotated[
    str, typer.Option(help="The licence of what is imported, instead of what is found there; else it is unknown.")
]


@import_app.command("rubrics")
@ends_with_status
def import_rubrics_command(
    checkout: Annotated[Path, typer.Argument(help="The folder of a checkout of the published code.")],
    out: Annotated[Path, typer.Option(help="The new folder of rubrics.")] = Path("imported_rubrics"),
    licence: LicenceOption = "",
    means: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=MEANING", help="What a method or parameter is, e.g. rate=judging.user, q=prompt."),
    ] = None,
    verdict_key: Annotated[
        str | None,
        typer.Option(help="The JSON key under which a verdict lists letters, where the wording does not say."),
    ] = None,
) -> Exit:
    """Read the wording of a checkout into a folder of rubrics, whose prompts are sent byte for byte as that code would.

    The checkout is parsed and never executed. Its prompts carry no fence around foreign text; `hab rubric check`,
    reports and exports say so. Name the folder as `rubrics:` in a sweep file.
    """
    from hab_ray.exchange.imports.rubrics import Wanted, import_rubrics

    found = import_rubrics(checkout, out, Wanted(licence, _pairs("--means", means or ()), verdict_key))
    for note in found.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{out}: written; compare the list above with the code, then name `rubrics: {out}` in a sweep file",
        markup=False,
        soft_wrap=True,
    )
    return Exit.COMPLETE


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """`name=value` as users write it.

    Raises:
        ConfigError: it has no name, no value, or a name comes twice.
    """
    pairs: dict[str, str] = {}
    for each in given:
        name, _, value = each.partition("=")
        if not name or not value or name in pairs:
            raise ConfigError(f"{option} {each}: write NAME=VALUE, each name once")
        pairs[name] = value
    return pairs


@import_app.command("tests")
@ends_with_status
def import_tests_command(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|published", help="A .parquet, .csv, .jsonl or .json file, or the published rows."),
    ],
    out: Annotated[Path, typer.Option(help="The new file of tests, .parquet or .jsonl.")] = Path("tests.parquet"),
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="OURS=THEIRS", help="Which column is dimension, prompt, context or canary."),
    ] = None,
    licence: LicenceOption = "",
    revision: Annotated[
        str,
        typer.Option(metavar="COMMIT", help="Of `published`: the commit to read, so that the same rows come again."),
    ] = "",
    rubrics: Annotated[Path | None, typer.Option(help="A folder of rubrics that the tests are for.")] = None,
) -> Exit:
    """Read the distinct queries of published rows into a file that a sweep names as `tests:`.

    Beside it, FILE.source.yaml says where they come from: source, licence, canaries, columns and counts.
    """
    from hab_ray.exchange.imports.given import TestSource, import_tests

    asked = TestSource(source, _pairs("--column", column or ()), licence, revision)
    found = import_tests(asked, out, rubrics)
    for note in found.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    console.print(f"{found.path}: written; name `tests: {found.path}` in a sweep file", markup=False, soft_wrap=True)
    return Exit.COMPLETE
