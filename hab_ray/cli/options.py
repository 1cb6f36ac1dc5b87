"""Arguments and options that several commands share, with their help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hab_ray.cli.views.tables import TableFormat
from hab_ray.location import Location

RunFolderArgument = Annotated[
    Location, typer.Argument(parser=Location.of, metavar="RUN", help="The run's folder, e.g. runs/demo.")
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

SweepArgument = Annotated[Path, typer.Argument(metavar="SWEEP", help="The sweep file, e.g. jobs/demo.yaml.")]
ModelOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A .gguf file to use for the sweep's local chat models.")
]
RunOption = Annotated[
    Location | None,
    typer.Option(parser=Location.of, metavar="PATH", help="The run's folder, instead of the sweep's `run:`."),
]
StoreOption = Annotated[
    Location | None,
    typer.Option(parser=Location.of, metavar="PATH", help="The store, instead of the sweep's `store:`."),
]
SubjectOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="A subject, instead of the sweep's. Repeatable.")
]
JudgeOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="A judge, instead of the sweep's. Repeatable.")
]
AvailableOption = Annotated[
    bool, typer.Option("--available-only", help="Leave out subjects and judges that cannot be called.")
]
ExecutorOption = Annotated[
    str | None,
    typer.Option(
        metavar="local|ray|auto", help="Make online calls in this process, by Ray, or auto: by Ray for large sweeps."
    ),
]
