"""`hab runs`: show the runs in a folder."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from hab_ray.cli.commands.running.status import Status, read_status
from hab_ray.cli.ending import console, ends_with_status
from hab_ray.cli.options import any_folder
from hab_ray.cli.views.terminal import print_cells
from hab_ray.errors import ConfigError, Exit, HabError, problem_of
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import BY_SIMULATOR, MARKER, runs_below
from hab_ray.visible import one_line, usd


def _cells(run: Location) -> Sequence[str]:
    folder, megabytes = open_folder(run), ""
    try:
        megabytes = f"{sum(map(folder.size, folder.list())) / 1e6:,.1f}"
        status = read_status(run)
    except (HabError, PermissionError) as error:
        return run.name, f"cannot be read: {problem_of(error)}", "", "", megabytes, ""
    stages = status.progress.stages
    rows = f"{sum(one.done for one in stages):,} of {sum(one.total for one in stages):,}"
    reported = usd(status.progress.cost_nanousd + status.progress.earlier_nanousd)
    paid = reported if status.is_driven or status.progress.end else f"at least {reported}"  # a killed run may have more
    by_simulator = "simulated, " if folder.exists(BY_SIMULATOR) else ""
    kind = "rehearsal, " if folder.exists(MARKER) else by_simulator
    changed = status.progress.at[:16].replace("T", " ")  # to the minute, in UTC
    return run.name, kind + _state(status), rows, paid, megabytes, changed


def _state(status: Status) -> str:
    if status.is_driven:
        return "running"
    if status.silent:
        return "no report; if it has died, the same `hab run` resumes it"
    if status.progress.end is None:
        return "unfinished: the same `hab run` resumes it"
    return status.progress.end.meaning


@ends_with_status
def command(
    folder: Annotated[
        Location | None, typer.Argument(parser=any_folder, metavar="FOLDER", help="Default: runs.")
    ] = None,
) -> Exit:
    """List the runs in a folder: state, rows done, dollars paid, size, last change."""
    place = folder or Location("runs")
    runs = runs_below(place)
    if not runs:
        raise ConfigError(f"{place}: there are no runs here; `hab run SWEEP.yaml` starts one, or name another folder")
    table = Table("run", "state", "rows", "paid", "MB", "last change", box=None, pad_edge=False)
    for run in runs:
        table.add_row(*map(one_line, _cells(run)))
    print_cells(table, console)
    return Exit.COMPLETE
