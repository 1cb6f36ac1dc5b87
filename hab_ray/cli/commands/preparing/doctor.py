"""`hab doctor`: check this machine and the vendors."""

from pathlib import Path
from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status
from hab_ray.cli.options import LiveOptions, sweep_file
from hab_ray.cli.prepare import Choices
from hab_ray.errors import ConfigError, Exit


@ends_with_status
def command(
    sweep: Annotated[
        Path | None,
        typer.Argument(
            parser=sweep_file,
            metavar="SWEEP",
            help="The sweep file. Default: check this machine and the vendors with keys.",
        ),
    ] = None,
    *,
    choices: Choices,
    live: Annotated[
        bool, typer.Option("--live", help="Call every model once, for cents, and compare with the simulator.")
    ] = False,
    options: LiveOptions,
) -> Exit:
    """Check this machine and the way to the vendors; with --live, compare the vendors' answers with the simulator's.

    --live books its calls in the sweep's store, outside the sweep's budget. You can attach its file to a bug report: it
    holds all requests and answers without keys and tokens, and `hab simulate --replay` serves it.

    Exit status: 0 if nothing is wrong, 2 if something is, 8 if the vendors' answers mean that the sweep will not work,
    costs more or may lose rows.
    """
    if not live and options != LiveOptions():
        raise ConfigError("hab doctor: --batch, --max-usd, --wait, --at, --out and --yes need --live; add it")
    if not live:
        from hab_ray.cli.machine import examine_machine

        return examine_machine(sweep, choices)
    from hab_ray.cli.live import examine_vendors

    if sweep is None:
        raise ConfigError("hab doctor --live: no sweep file given; name one, e.g. jobs/small.yaml")
    return examine_vendors(sweep, choices, options)
