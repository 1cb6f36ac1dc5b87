"""`hab store`: remove what no run uses from a store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.format import refuse_newer
from hab_ray.storage.lease.lease import last_holder
from hab_ray.storage.lease.takeover import LeaseTerms
from hab_ray.storage.reach import reach
from hab_ray.storage.registry import Registry
from hab_ray.sweep.session import holding
from hab_ray.sweep.unused import remove, runs_of, unused, used_keys
from hab_ray.visible import counted

command = typer.Typer(help="Remove what no run uses from a store.", no_args_is_help=True)
MEGABYTE = 1_000_000


@command.command("gc")
@ends_with_status
def gc_command(
    store: Annotated[Location, typer.Argument(parser=Location.of, metavar="STORE", help="The store's folder.")],
    folders: Annotated[
        list[Location] | None,
        typer.Argument(parser=Location.of, metavar="[RUNS]...", help="Folders of runs beside those the store knows."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without this it is only shown.")] = False,
) -> Exit:
    """Show what only runs that are gone have paid for and used; with --yes, remove it.

    A run is there where the store saw it last, or in one of the folders named. One elsewhere counts as gone, and pays
    again for what it lacks. Every run that is there must be complete.
    """
    refuse_newer(reach(store), f"store at {store}")
    files = open_folder(store)
    if last_holder(files) is None:
        raise ConfigError(f"{store}: there is no store here; name the folder that a sweep has as `store:`")
    now = datetime.now(UTC)
    with holding(store, store, LeaseTerms(say=warn, check=stop.check), stop) as lease:
        runs = runs_of(store, list(folders or ()))
        for place in runs.gone.values():
            say(f"gone: the run that was at {place}")
        say(f"there: {counted(len(runs.there), 'run')}, all that they read stays")
        used, epochs = used_keys(store, runs, now), Registry(store).epochs_entered(runs.gone.keys())
        found = list(unused(files, epochs, used))
        rows, size = sum(file.total - file.keep for file in found), sum(file.bytes for file in found)
        told = f"{counted(rows, 'reply', 'replies')} in {counted(len(found), 'file')} of {size / MEGABYTE:,.1f} MB"
        if yes:
            remove(files, found, epochs, used, lease.epoch)
            say(f"removed: {told}")
        else:
            say(
                f"{told} may go. Nothing was removed. A run elsewhere that uses them would pay again: name the "
                "folders of such runs too; --yes removes"
            )
    return Exit.COMPLETE
