"""What a command says and asks, and how it ends: an exit status, and one message where something went wrong.

An error of ours is one message and the status of its class (see `hab_ray.errors`); so is an error of the file system.
Any other exception is a bug: one line and status 7, because what was paid for is in the store and the same command
goes on. A traceback is shown with -v only.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

import typer

from hab_ray.cli.views.terminal import Terminal, output
from hab_ray.errors import ConfigError, Exit, HabError, Interrupted, exit_of, file_problem
from hab_ray.visible import one_line

P = ParamSpec("P")

console = output()
errors = Terminal(stderr=True)


def say(text: str, style: str | None = None) -> None:
    """Print one line, which no terminal breaks; nothing in it moves a cursor or forges a second line."""
    indent = " " * (len(text) - len(text.lstrip(" ")))
    console.print(indent + one_line(text), style=style, soft_wrap=True)


@contextmanager
def aside() -> Iterator[None]:
    """Say it on standard error meanwhile: a program reads the other one."""
    console.stderr = True
    try:
        yield
    finally:
        console.stderr = False


def warn(text: str) -> None:
    """Say what is to be seen beside the results: why a command waits, what it does on its own."""
    say(text, "yellow")


def ask_to_spend(what: str) -> None:
    """Ask whether to spend on what was just shown.

    Raises:
        ConfigError: nobody is there to answer.
        Interrupted: the answer was no.
    """
    if not is_anybody_there():
        raise ConfigError(f"{what} costs money: look at what is shown above, then give the command again with --yes")
    if not typer.confirm("Spend this?", default=False):
        raise Interrupted("nothing was sent")


def is_anybody_there() -> bool:
    """Whether a user is at a terminal and can be asked."""
    return console.is_terminal and sys.stdin.isatty()


def ends_with_status(command: Callable[P, Exit]) -> Callable[P, None]:
    """Make a command end the process with the status it returns; an exception becomes one message."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            status = command(*args, **kwargs)
        except (KeyboardInterrupt, typer.Abort):  # the latter is Ctrl-C or an end of input at a question
            status = Exit.INTERRUPTED
        except typer.Exit:
            raise
        except Exception as error:
            status = say_error(error, bool(kwargs.get("verbose")) or verbosity.tracebacks)
        raise typer.Exit(int(status))

    return run


@dataclass
class Verbosity:
    """Whether `hab -v` was given; `hab run -v` comes with the command's own options."""

    tracebacks: bool = False


verbosity = Verbosity()


def say_error(error: Exception, with_traceback: bool) -> Exit:
    """Say in one message what an exception means; the exit status it leads to."""
    ours = file_problem(error) if isinstance(error, OSError) else error
    if with_traceback:
        errors.print("".join(traceback.format_exception(error)), markup=False, soft_wrap=True)
    first_line = (str(error).strip().splitlines() or [""])[0]
    bug = (
        f"{type(error).__name__}: {first_line}\nThis is a bug in hab_ray. What was paid for is kept, and the same "
        "command goes on where this ended; with -v right after `hab` it shows the traceback, for a report of the bug."
    )
    errors.print(str(ours) if isinstance(ours, HabError) else bug, markup=False, soft_wrap=True, style="red")
    return exit_of(error)
