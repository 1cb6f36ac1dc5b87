"""`hab figures`: draw a run's figures for a paper."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from hab_ray.cli.ending import console, ends_with_status
from hab_ray.cli.options import RunFolderArgument
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.results import open_run
from hab_ray.results.run import analyses_of
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import FIGURES
from hab_ray.visible import one_line

_NEEDED = {"leaderboard", "issues", "agreement", "differences"}


def draw_figures(location: Location, out: Location | None, console: Console) -> Exit:
    """Write the figures into a folder, the run's own where none is named, and say what each shows.

    Raises:
        ConfigError: there is no run, it has no scores yet, or matplotlib is not installed.
    """
    from hab_ray.report.figures import write_figures

    run = open_run(location)
    if not set(analyses_of(run)) >= _NEEDED:
        raise ConfigError(
            f"{run.location}: there are no tables yet, or an earlier version's; `hab report {run.location}` writes them"
        )
    folder = out or run.location / FIGURES
    for figure in write_figures(run, open_folder(folder)):
        told = f"{folder / figure.name}.svg, .png, .csv" if figure.files else f"{figure.name}: nothing to draw"
        console.print(one_line(f"{told}: {figure.shows}"), soft_wrap=True)
    return Exit.COMPLETE


@ends_with_status
def command(
    run: RunFolderArgument,
    out: Annotated[
        Location | None,
        typer.Option(parser=Location.of, metavar="DIR", help="Where to write them, instead of `figures` in the run."),
    ] = None,
) -> Exit:
    """Draw the leaderboard, a heat map of issues, agreement and pairs, as SVG and PNG, with the data drawn as CSV.

    They show what the end of the last `hab run` or `hab report` has written. It needs matplotlib: pip install
    'hab-ray[figures]'.
    """
    return draw_figures(run, out, console)
