"""`hab export`: write a run's rows for other tools."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hab_ray.cli.ending import console, ends_with_status
from hab_ray.cli.options import RunFolderArgument
from hab_ray.errors import Exit
from hab_ray.exchange import Sharing, everything, export, licensed, remove_leftovers
from hab_ray.location import Location
from hab_ray.results import Run, open_run


def export_run(
    location: Location,
    form: str,
    folder: Path,
    licence: str,
    may_leave: Callable[[Run], Sharing],
    console: Console,
) -> Exit:
    """Write the export of what may leave the run, print its files, and say what is left out."""
    run = open_run(location)
    sharing = may_leave(run)
    for path in remove_leftovers(folder, time.time()):
        console.print(f"{path}: removed; an export that was killed left it", soft_wrap=True)
    for path in export(run, form, folder, licence, sharing):
        console.print(f"{path}  {path.stat().st_size:,} bytes", soft_wrap=True, markup=False, highlight=False)
    for source in sharing.left_out:
        console.print(f"left out: {source}", style="yellow", soft_wrap=True, markup=False, highlight=False)
    if sharing.left_out:
        console.print(sharing.remedies, style="yellow", soft_wrap=True, markup=False, highlight=False)
    return Exit.COMPLETE


@ends_with_status
def command(
    run: RunFolderArgument,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="hf (a data set as published), csv (a ' stands before what a spreadsheet would take for a formula; "
            "csv-raw: none does), json, or inspect (logs for `inspect view`).",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The new folder to write to.")],
    licence: Annotated[str, typer.Option(help="What the card states, such as mit or cc-by-4.0.")] = "unknown",
    i_may_share: Annotated[
        bool, typer.Option("--i-may-share", help="Include what comes from elsewhere without a known licence.")
    ] = False,
) -> Exit:
    """Write a run's tests, responses, verdicts and scores in a format that others read, with a card.

    Imported queries, given answers and imported wording of rubrics are left out where no licence of theirs is known.
    """
    return export_run(run, form, out, licence, everything if i_may_share else licensed, console)
