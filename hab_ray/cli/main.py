"""The command `hab`: what comes before and after any of its commands, which `registry` finds."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from hab_ray import __version__
from hab_ray.cli.ending import console, say_error, verbosity
from hab_ray.cli.interrupts import stop
from hab_ray.cli.registry import CommandGroup
from hab_ray.cli.views.terminal import write_whatever_the_encoding
from hab_ray.errors import ConfigError
from hab_ray.inputs.env_text import env_file, env_keys
from hab_ray.inputs.files import BadInput

_USUAL = Path(".env")

app = typer.Typer(
    cls=CommandGroup,
    help="HumanAgencyBench as a batch-processing system: sweeps of many models, each call paid for once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"hab_ray {__version__}", markup=False, highlight=False)
        raise typer.Exit


@app.callback()
def _before_any_command(
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show the traceback of an error too.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    env_file: Annotated[
        Path | None,
        typer.Option(help="A file of variables, such as keys; none = those of ./.env that end in _KEY."),
    ] = None,
) -> None:
    verbosity.tracebacks = verbose
    try:
        _take_variables(env_file)
    except BadInput as error:
        raise typer.Exit(say_error(ConfigError(f"{env_file or _USUAL}: {error}"), verbose)) from None


def _take_variables(file: Path | None) -> None:
    """Set the variables of a file that are not set; of `./.env`, which nobody named, only keys.

    They stay in this process and those that it starts; nothing is copied or written.
    """
    usual = env_keys(_USUAL) if file is None and _USUAL.is_file() else {}
    for name, value in (usual if file is None else env_file(file)).items():
        os.environ.setdefault(name, value)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the console script. SIGTERM ends a run as Ctrl-C does: what was paid for is kept.

    Whatever is written is this user's alone.
    Arrow's own allocator keeps 40 MB that nobody uses, so the system's is taken.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.umask(0o077)
    write_whatever_the_encoding()
    stop.listen()
    try:
        app(arguments)
    except SystemExit as end:
        if isinstance(end.code, int):
            _say_last_line(end.code)
            _flush()
            if stop.requested:
                os._exit(end.code)  # Ray's threads, cut off while it starts, were seen to crash in Python's clearing up
            stop.finish(end.code)
        raise


def _say_last_line(status: int) -> None:
    """In a Ray job: whatever was said before, the last line says how it ended."""
    from hab_ray.cli.job import last_line
    from hab_ray.resources import is_ray_job

    if is_ray_job(os.environ):
        _flush()
        console.print(last_line(status), soft_wrap=True)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
