"""`hab rm`: remove a run; its store stays."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Annotated

import typer

from hab_ray.cli.commands.running.status import Status, read_status
from hab_ray.cli.commands.running.store import DEFAULT_STORE
from hab_ray.cli.ending import ends_with_status, is_interactive, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.options import RunFolderArgument
from hab_ray.errors import ConfigError, DamagedFile, Exit, Interrupted, StoreHeld
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import last_holder
from hab_ray.storage.record import run_id_in
from hab_ray.storage.registry import Registry
from hab_ray.storage.run import MARKER, SHEETS, RunFolder
from hab_ray.sweep.session import maintaining
from hab_ray.visible import counted


def _confirm(run: Location, status: Status) -> None:
    if not is_interactive():
        raise ConfigError(f"{run}: there is no terminal to ask on; repeat `hab rm` with --yes")
    what = "its rows, scores, log, report and figures"
    if list(open_folder(run).list(SHEETS)):
        what += ", and its rating sheets with the key to what people have rated,"
    say(f"{run}: {what} will be removed; the store at {status.store} keeps all paid replies")
    if not typer.confirm("Remove it?", default=False):
        raise Interrupted("nothing was removed")


@contextmanager
def _without_driver(status: Status) -> Iterator[None]:
    """Hold the store, so that no process can run this run; not needed while another run of the store holds it.

    Raises:
        StoreHeld: a process runs this run, although it did not report.
    """
    holder, store = status.driver, status.store
    is_of_other = holder is not None and not status.is_driven and RunFolder(store.resolve(holder.run)).exists()
    last = last_holder(open_folder(store))
    if is_of_other or last is None:
        yield
        return
    with maintaining(store, last, status.run, stop, warn):
        with suppress(DamagedFile):
            _claim_epoch(status.run, Registry(store))
        yield


def _claim_epoch(run: Location, registry: Registry) -> None:
    """Claim the present epoch for a run, because every later plan reads the lease records that no run has claimed.

    A copy of another run's folder claims nothing: the store would take that run for removed.
    """
    id = run_id_in(run)
    if id is not None and registry.other_folder(id, run) is None:
        registry.enter(id, run, datetime.now(UTC))


def _store_left(store: Location) -> str:
    is_default = store.absolute() == DEFAULT_STORE.absolute()
    listing = "hab store gc" if is_default else f"hab store gc {shlex.quote(str(store))}"
    return f"; the store at {store} keeps all paid replies. To list those that no run uses: {listing}"


@ends_with_status
def command(
    run: RunFolderArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False,
) -> Exit:
    """Remove a run with its scores, report, figures and rating sheets. The store keeps all paid replies."""
    files = RunFolder(run)
    files.require()
    status = read_status(run)
    if status.is_driven:
        raise StoreHeld(f"{run}: a process is running it; stop that first (Ctrl-C where it runs), then remove the run")
    if batches := status.progress.batches:
        raise ConfigError(
            f"{run}: {counted(len(batches), 'batch', 'batches')} still at the vendors, which charge for rows they "
            f"complete. `hab run` collects the results; `hab batches cancel {run}` cancels open batches"
        )
    if not yes:
        _confirm(run, status)
    simulated = files.has(MARKER)
    with _without_driver(status):
        others = files.remove()
    if simulated and status.store.is_same(run / "store"):
        open_folder(status.store).clear("")  # simulated replies are of no use to any other run
    inside = f"{status.store.relative_to(run)}/"
    kept = [name for name in others if not name.startswith(inside)]
    if not kept and run.is_local:
        with suppress(OSError):  # `run` is a link, or holds empty folders that hab did not make
            run.path.rmdir()
    say(f"{run}: removed" + ("" if simulated else _store_left(status.store)))
    if kept:
        say(f"kept, as hab did not write it: {', '.join(kept[:5])}{', ...' if len(kept) > 5 else ''}", "yellow")
    return Exit.COMPLETE
