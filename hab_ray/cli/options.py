"""What several commands of `hab` take alike: arguments and options, with the words that `--help` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hab_ray.cli.views.tables import TableFormat
from hab_ray.location import Location


def _place(told: str) -> Any:
    return typer.Option(parser=Location.of, metavar="PATH", help=told)


RunFolderArgument = Annotated[
    Location, typer.Argument(parser=Location.of, metavar="RUN", help="The run's folder, e.g. runs/demo.")
]
FormatOption = Annotated[
    TableFormat | None,
    typer.Option(
        "--format", help="For a paper (latex, with booktabs and graphicx; markdown) or a program.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as --format json, with units.")]
BatchArgument = Annotated[str, typer.Argument(help="A batch's name as `list` shows it, or the vendor's id.")]

SweepArgument = Annotated[Path, typer.Argument(help="The sweep file, e.g. jobs/demo.yaml.")]
ModelOption = Annotated[
    Path | None, typer.Option(help="A .gguf file to take the place of the sweep's local chat models.")
]
RunOption = Annotated[Location | None, _place("The run's folder, instead of the sweep's `run:`.")]
StoreOption = Annotated[Location | None, _place("The store, instead of the sweep's `store:`.")]
RehearsalOption = Annotated[Location | None, _place("The rehearsal's folder, instead of runs/rehearsal-<run>.")]
RehearsalStoreOption = Annotated[Location | None, _place("The rehearsal's store, instead of one in its folder.")]
SubjectOption = Annotated[
    list[str] | None, typer.Option(help="A subject, instead of the sweep's; may be given several times.")
]
JudgeOption = Annotated[
    list[str] | None, typer.Option(help="A judge, instead of the sweep's; may be given several times.")
]
AvailableOption = Annotated[
    bool, typer.Option("--available-only", help="Leave out subjects and judges that cannot be called.")
]

ExecutorOption = Annotated[
    str | None,
    typer.Option(
        help="Where online calls are made: local (this process), ray, or auto, which takes Ray for large sweeps."
    ),
]
