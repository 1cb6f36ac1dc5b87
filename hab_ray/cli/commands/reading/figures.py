"""`hab figures`: draw a run's figures for a paper."""

from typing import Annotated

from hab_ray.cli.ending import ends_with_status, say
from hab_ray.cli.options import RunFolderArgument, place_option
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.results import open_run
from hab_ray.results.run import analyses_of
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import FIGURES
from hab_ray.visible import one_line

_NEEDED = {"leaderboard", "issues", "agreement", "differences"}


@ends_with_status
def command(
    folder: RunFolderArgument,
    out: Annotated[Location | None, place_option("DIR", "The output folder, instead of `figures` in the run.")] = None,
) -> Exit:
    """Draw the leaderboard, a heat map of issues, agreement and pairs as SVG and PNG, with their data as CSV.

    The figures show the results of the last `hab run` or `hab report`. Requires matplotlib: in your
    clone, pip install '.[figures]'.
    """
    from hab_ray.report.figures import write_figures

    run = open_run(folder)
    if not set(analyses_of(run)) >= _NEEDED:
        raise ConfigError(
            f"{run.location}: the tables to draw are missing or outdated; `hab report {run.location}` writes them"
        )
    folder_drawn = out or run.location / FIGURES
    figures = write_figures(run, open_folder(folder_drawn))
    for figure in figures:
        files = f"{folder_drawn / figure.name}.svg, .png, .csv" if figure.files else f"{figure.name}: nothing to draw"
        say(f"{files}: {figure.shows}")
    if missing := "".join(dict.fromkeys("".join(figure.missing for figure in figures))):
        say(
            f"matplotlib's font lacks {one_line(missing)}: the figures show boxes instead. Give these subjects a "
            "`name:` in Latin letters",
            "yellow",
        )
    return Exit.COMPLETE
