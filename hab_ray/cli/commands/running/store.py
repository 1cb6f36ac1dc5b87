"""`hab store`: remove replies that no run uses."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.options import any_folder
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.format import refuse_newer
from hab_ray.storage.lease.lease import last_holder
from hab_ray.storage.registry import Registry
from hab_ray.sweep.session import maintaining
from hab_ray.sweep.unused import remove, runs_of, unused, used_keys
from hab_ray.visible import counted

DEFAULT_STORE = Location("store")

command = typer.Typer(help="Remove replies that no run uses from a store.", no_args_is_help=True)


@command.command("gc")
@ends_with_status
def gc_command(
    store: Annotated[
        Location | None, typer.Argument(parser=any_folder, metavar="STORE", help="The store's folder. Default: store.")
    ] = None,
    folders: Annotated[
        list[Location] | None,
        typer.Argument(parser=any_folder, metavar="RUN", help="Folders of runs, or with runs, beside those known."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the replies; otherwise only show them.")] = False,
) -> Exit:
    """Show replies of deleted runs; --yes removes them.

    These are the replies that only deleted runs paid for and used. A run exists if it is where the store last saw
    it, or in one of the folders you name. A run elsewhere counts as deleted and would pay again for removed
    replies. Every existing run must be complete.
    """
    store = store or DEFAULT_STORE
    files = open_folder(store)
    refuse_newer(files, f"store at {store}")
    last = last_holder(files)
    if last is None:
        raise ConfigError(f"{store}: there is no store here; name the folder that a sweep has as `store:`")
    with maintaining(store, last, store, stop, warn) as lease:
        say(f"store: {store}")
        runs = runs_of(store, folders or ())
        for place in runs.gone.values():
            say(f"deleted: the run that was at {place}")
        say(f"existing: {counted(len(runs.there), 'run')}, whose replies are kept")
        used, epochs = used_keys(store, runs, datetime.now(UTC)), Registry(store).epochs_entered(runs.gone.keys())
        found = list(unused(files, epochs, used))
        rows, megabytes = sum(file.total - file.keep for file in found), sum(file.bytes for file in found) / 1e6
        size = f"{counted(rows, 'reply', 'replies')} in {counted(len(found), 'file')} of {megabytes:,.1f} MB"
        if not found:
            say("every reply is used by an existing run: there is nothing to remove")
        elif yes:
            remove(files, found, epochs, used, lease.epoch)
            say(f"removed: {size}")
        else:
            say(
                f"{size} can be removed. Nothing was removed: --yes removes them. A run in another folder that uses "
                "them would pay again, so name the folders of all such runs too"
            )
    return Exit.COMPLETE
