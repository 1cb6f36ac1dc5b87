"""The command `hab`: global options, and setup and cleanup around its commands, which `registry` finds."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hab_ray import __version__
from hab_ray.cli.ending import console, errors, say_error, verbosity
from hab_ray.cli.interrupts import stop
from hab_ray.cli.registry import CommandGroup
from hab_ray.cli.views.terminal import escape_unencodable, write_nowhere
from hab_ray.engine.descriptors import allow_open_files
from hab_ray.errors import ConfigError
from hab_ray.inputs.env_text import env_file, env_keys
from hab_ray.inputs.files import BadInput

_DEFAULT_ENV_FILE = Path(".env")

app = typer.Typer(
    cls=CommandGroup,
    help="Run HumanAgencyBench over many models, online or by batch, and pay for each call once.",
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
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    env_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of environment variables, such as API keys. Default: the *_KEY variables of ./.env.",
        ),
    ] = None,
) -> None:
    verbosity.tracebacks = verbose
    try:
        _load_environment(env_file)
    except BadInput as error:
        raise typer.Exit(say_error(ConfigError(f"{env_file or _DEFAULT_ENV_FILE}: {error}"), verbose)) from None


def _load_environment(file: Path | None) -> None:
    """Set the variables of `file` that are not set yet, and the keys that are empty. Of `./.env` set only the keys."""
    variables = env_file(file) if file is not None else _own_keys()
    for name, value in variables.items():
        if name not in os.environ or (name.endswith("_KEY") and not os.environ[name].strip()):
            os.environ[name] = value


def _own_keys() -> dict[str, str]:
    """Return the keys in ./.env; none, with a warning, if it may not be read: most commands need no key."""
    try:
        if not _DEFAULT_ENV_FILE.is_file():
            return {}
        _DEFAULT_ENV_FILE.open("rb").close()
    except OSError as error:
        errors.print(f"{_DEFAULT_ENV_FILE}: cannot be read: {error.strerror}; its keys are not set", style="yellow")
        return {}
    return env_keys(_DEFAULT_ENV_FILE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `hab` as the console script does. SIGTERM ends a command as Ctrl-C does."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own allocator keeps 40 MB unused
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for them fails at any unreadable package
    os.umask(0o077)  # only this user may read what is written
    allow_open_files()
    escape_unencodable()
    stop.listen()
    try:
        _run(arguments)
    except SystemExit as end:
        if isinstance(end.code, int):
            _print_last_line(end.code)
            _flush()
            if stop.requested:
                os._exit(end.code)  # Ray's threads may crash the interpreter's shutdown if Ray was still starting
            stop.finish(end.code)
        raise


def _run(arguments: Sequence[str] | None) -> None:
    """Run a command.

    An error may come from outside of `ends_with_status`: `hab --help` may write to a full disk, and a command of
    another distribution may lack it.
    """
    try:
        app(arguments)
    except Exception as error:
        raise SystemExit(int(say_error(error, verbosity.tracebacks))) from None


def _print_last_line(status: int) -> None:
    from hab_ray.cli.job import last_line
    from hab_ray.resources import is_ray_job

    if is_ray_job(os.environ):
        _flush()
        console.print(last_line(status), soft_wrap=True)


def _flush() -> None:
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:  # which the interpreter would report again when it ends, with status 120
            write_nowhere(stream)
        except ValueError:  # closed
            pass
