"""Arguments and options that several commands share, with their help texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hab_ray.cli.views.tables import TableFormat
from hab_ray.inputs.files import BadInput
from hab_ray.inputs.yaml_text import yaml_file
from hab_ray.location import Location


def run_folder(text: str) -> Location:
    """Read the place of a run; point to it if this is the sweep's file instead."""
    path = Path(text)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        raise typer.BadParameter(f"{text} is a sweep file. This command takes the folder of its run, {_run_of(path)}")
    return any_folder(text)


def any_folder(text: str) -> Location:
    """Read the place of a folder; refuse a file."""
    if Path(text).is_file():
        raise typer.BadParameter(f"{text} is a file. This command takes a folder")
    return Location.of(text)


def _run_of(path: Path) -> str:
    try:
        keys = dict(yaml_file(path))
    except (BadInput, TypeError, ValueError):
        return "such as runs/demo"
    if "sweep" in keys:  # the record in the folder itself
        return str(path.parent)
    return str(keys.get("run") or f"runs/{keys.get('name', path.stem)}")


def sweep_file(text: str) -> Path:
    """Read the path of a sweep file; explain if this is a run's folder instead."""
    path = Path(text)
    if (path / "sweep.yaml").is_file():
        raise typer.BadParameter(f"{text} is the folder of a run. This command takes its sweep file")
    return path


def place_option(metavar: str, help: str) -> Any:
    """Return an option that takes the path of a folder, or its address in a bucket."""
    return typer.Option(parser=Location.of, metavar=metavar, help=help)


RunFolderArgument = Annotated[
    Location, typer.Argument(parser=run_folder, metavar="RUN", help="The run's folder, e.g. runs/demo.")
]
FormatOption = Annotated[
    TableFormat | None,
    typer.Option(
        "--format",
        help="Print a table for a paper (latex, which needs booktabs and graphicx, or markdown) or for a program.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json.")]

SweepArgument = Annotated[
    Path, typer.Argument(parser=sweep_file, metavar="SWEEP", help="The sweep file, e.g. jobs/demo.yaml.")
]


@dataclass(frozen=True)
class LiveOptions:
    """The options of `hab doctor --live`."""

    batch: Annotated[
        bool, typer.Option("--batch", help="With --live: also submit a batch of two rows to each model.")
    ] = False
    max_usd: Annotated[
        float, typer.Option(min=0, metavar="USD", help="With --live: upper limit of the cost in dollars.")
    ] = 1.0
    wait: Annotated[
        float, typer.Option(min=0, metavar="MINUTES", help="With --batch: minutes to wait for a batch.")
    ] = 30.0
    at: Annotated[
        str | None, typer.Option(metavar="URL", help="With --live: a `hab simulate` to call instead of the vendors.")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --live: the file of exchanges, instead of doctor-<name>-<time>.jsonl."),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Spend what --live costs without asking.")] = False
