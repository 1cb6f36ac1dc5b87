"""`hab export`: write a run's rows for other tools."""

from pathlib import Path
from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status, say
from hab_ray.cli.options import RunFolderArgument
from hab_ray.errors import Exit
from hab_ray.exchange import everything, export, licensed
from hab_ray.results import open_run


@ends_with_status
def command(
    folder: RunFolderArgument,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="hf (a data set like the published one), csv (prefixes text that a spreadsheet would take for a "
            "formula with '; csv-raw does not), json, or inspect (logs for `inspect view`).",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new folder to write to.")],
    licence: Annotated[
        str, typer.Option(metavar="LICENCE", help="The licence to state on the card, such as cc-by-4.0.")
    ] = "unknown",
    i_may_share: Annotated[
        bool, typer.Option("--i-may-share", help="Include material of others without a known licence.")
    ] = False,
) -> Exit:
    """Write a run's tests, responses, verdicts and scores in a format for other tools, with a data card.

    Imported queries, given answers and imported rubric wording without a known licence are left out.
    """
    run = open_run(folder)
    sharing = everything(run) if i_may_share else licensed(run)
    for path in export(run, form, out, licence, sharing):
        say(f"{path}  {path.stat().st_size:,} bytes")
    for source in sharing.left_out:
        say(f"left out: {source}", "yellow")
    if sharing.left_out:
        say(sharing.remedies, "yellow")
    return Exit.COMPLETE
