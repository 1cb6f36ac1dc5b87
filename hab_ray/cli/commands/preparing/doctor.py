"""`hab doctor`: check this machine and the vendors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hab_ray.cli import options
from hab_ray.cli.ending import ends_with_status
from hab_ray.cli.prepare import Choices
from hab_ray.errors import ConfigError, Exit


@ends_with_status
def command(
    sweep: Annotated[
        Path | None,
        typer.Argument(
            parser=options.sweep_file,
            metavar="SWEEP",
            help="The sweep file. Default: check this machine and the vendors with keys.",
        ),
    ] = None,
    subject: options.SubjectOption = None,
    judge: options.JudgeOption = None,
    run: options.RunOption = None,
    store: options.StoreOption = None,
    available_only: options.AvailableOption = False,
    live: Annotated[
        bool, typer.Option("--live", help="Call every model once, for cents, and compare with the simulator.")
    ] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="With --live: also submit a batch of two rows to each model.")
    ] = False,
    max_usd: Annotated[
        float, typer.Option(min=0, metavar="USD", help="With --live: upper limit of the cost in dollars.")
    ] = 1.0,
    wait: Annotated[
        float, typer.Option(min=0, metavar="MINUTES", help="With --batch: minutes to wait for a batch.")
    ] = 30.0,
    at: Annotated[
        str | None, typer.Option(metavar="URL", help="With --live: a `hab simulate` to call instead of the vendors.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --live: the file of exchanges, instead of doctor-<name>-<time>.jsonl."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what --live costs without asking.")] = False,
) -> Exit:
    """Check this machine and the way to the vendors; with --live, compare the vendors' answers with the simulator's.

    --live books its calls in the sweep's store, outside the sweep's budget. You can attach its file to a bug report: it
    holds all requests and answers without keys and tokens, and `hab simulate --replay` serves it.

    Exit status: 0 if nothing is wrong, 2 if something is, 8 if the vendors' answers mean that the sweep will not work,
    costs more or may lose rows.
    """
    choices = Choices(None, run, store, tuple(subject or ()), tuple(judge or ()), available_only)
    if not live and (batch or at or out):
        raise ConfigError("hab doctor: --batch, --at and --out need --live; add it, or leave them out")
    if not live:
        from hab_ray.cli.machine import examine_machine

        return examine_machine(sweep, choices)
    from hab_ray.cli.live import LiveOptions, examine_vendors

    if sweep is None:
        raise ConfigError("hab doctor --live: no sweep file given; name one, e.g. jobs/small.yaml")
    return examine_vendors(sweep, choices, LiveOptions(yes, batch, max_usd, 60 * wait, at, out))
