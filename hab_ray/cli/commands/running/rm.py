"""`hab rm`: remove a run; its store stays."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from hab_ray.cli.commands.running.status import Status, read_status
from hab_ray.cli.ending import ends_with_status, is_anybody_there, say
from hab_ray.cli.options import RunFolderArgument
from hab_ray.errors import ConfigError, Exit, Interrupted, StoreHeld
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import MARKER, RunFolder
from hab_ray.visible import counted


def _ask(run: Location, status: Status, yes: bool) -> None:
    if yes:
        return
    if not is_anybody_there():
        raise ConfigError(f"{run}: nobody is there to be asked; give `hab rm` again with --yes")
    say(f"{run}: its rows, scores, log and report go; the store at {status.store} keeps what was paid for")
    if not typer.confirm("Remove it?", default=False):
        raise Interrupted("nothing was removed")


@ends_with_status
def command(
    run: RunFolderArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False,
) -> Exit:
    """Remove a run: its rows, scores, log and report. The store stays, so that nothing is paid for twice."""
    files = RunFolder(run)
    files.require()
    status = read_status(run)
    if status.is_driven:
        raise StoreHeld(f"{run}: a process drives it; end that first (Ctrl-C where it runs), then remove it")
    if status.progress.batches:
        raise ConfigError(
            f"{run}: still at the vendors, which charge for what they answer: "
            f"{counted(len(status.progress.batches), 'batch', 'batches')}. `hab run` collects the results, or "
            f"`hab batches cancel {run}` ends what is open"
        )
    _ask(run, status, yes)
    simulated = files.has(MARKER)
    if simulated and status.store.is_same(run / "store"):
        open_folder(status.store).clear("")  # simulated replies, which are no good to anybody else
    kept = files.remove()
    if not kept and run.is_local:
        with suppress(OSError):  # a link, or with empty folders of somebody else
            run.path.rmdir()
    told = "" if simulated else f"; the store at {status.store} keeps what was paid for"
    say(f"{run}: removed{told}")
    if kept:
        say(f"left there, as hab did not write it: {', '.join(kept[:5])}{', ...' if len(kept) > 5 else ''}", "yellow")
    return Exit.COMPLETE
