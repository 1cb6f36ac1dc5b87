"""Console output, questions and exit statuses of all commands.

A `HabError` or an error of the file system becomes one message and the exit status of its class (see
`hab_ray.errors`). Any other exception is a bug, of hab_ray or of a package that extends it: one line and status 7,
because replies that were paid for are in the store and the same command resumes. Only -v shows a traceback.
"""

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from hab_ray.cli.views.terminal import Terminal, is_tty, output
from hab_ray.errors import ConfigError, Exit, Interrupted, exit_of, problem_of
from hab_ray.location import Location, expanded
from hab_ray.resources import broken_package, exits_refused, package_blamed, package_of
from hab_ray.storage.folder import reach
from hab_ray.visible import one_line

_ADDRESS = re.compile(r"[a-z][a-z0-9]+:/")  # a path keeps one of two slashes
console = output()
errors = Terminal(stderr=True)


def say(text: str, style: str | None = None) -> None:
    """Print `text` as one unwrapped line, with control characters and line breaks made harmless."""
    indent = " " * (len(text) - len(text.lstrip(" ")))
    console.print(indent + one_line(text), style=style, soft_wrap=True)


@contextmanager
def on_stderr() -> Iterator[None]:
    """Send console output to standard error inside the block, while a program reads standard output."""
    console.stderr = True
    try:
        yield
    finally:
        console.stderr = False


def warn(text: str) -> None:
    """Print a warning or a notice, such as why a command waits, in yellow."""
    say(text, "yellow")


def ask_to_spend(what: str) -> None:
    """Ask whether to spend the amount just shown.

    Raises:
        ConfigError: there is no terminal to ask on.
        Interrupted: the user answered no.
    """
    if not is_interactive():
        raise ConfigError(f"{what} costs money: check the cost shown above, then repeat the command with --yes")
    if not typer.confirm("Spend this?", default=False):
        raise Interrupted("nothing was sent")


def is_interactive() -> bool:
    """Whether a user is at a terminal and can answer questions."""
    return console.is_terminal and is_tty(sys.stdin)


def ends_with_status(command: Callable[..., Exit]) -> Callable[..., None]:
    """Make a command exit with the status it returns, 0 for None; print an exception as one message.

    If the type of a parameter is a dataclass, typer sees its annotated fields as options instead, and the command gets
    them as that dataclass.
    """
    declared = inspect.signature(command, eval_str=True).parameters
    groups = {name: _options_of(each.annotation) for name, each in declared.items() if is_dataclass(each.annotation)}
    parameters = [one for name, each in declared.items() for one in groups.get(name, [each])]

    @wraps(command)
    def run(**given: Any) -> None:
        try:
            given |= {name: expanded(str(one)) for name, one in given.items() if isinstance(one, Path)}
            _check_places(given.values())
            for name, members in groups.items():
                given[name] = declared[name].annotation(**{one.name: given.pop(one.name) for one in members})
            with exits_refused():
                status = _status(command, command(**given))
        except (KeyboardInterrupt, typer.Abort):  # typer.Abort: Ctrl-C or end of input at a question
            status = Exit.INTERRUPTED
        except typer.Exit:
            raise
        except Exception as error:
            status = say_error(error, bool(given.get("verbose")) or verbosity.tracebacks)
        raise typer.Exit(int(status))

    by_name = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    vars(run)["__signature__"] = inspect.Signature(by_name)
    run.__annotations__ = {each.name: each.annotation for each in by_name}
    return run


def _status(command: Callable[..., Exit], returned: Any) -> Exit:
    """Return the exit status that a command returned, 0 for None.

    Raises:
        ConfigError: it is none, which only a command of another package returns.
    """
    if returned is not None and returned not in list(Exit):
        raise broken_package(
            package_of(command.__module__),
            f"{command.__name__} has to return an Exit, not {type(returned).__name__}: {returned!r:.80}",
        )
    return Exit(returned or Exit.COMPLETE)


def _check_places(given: Iterable[object]) -> None:
    """Check a command's files and folders before it begins: later, a bucket that does not answer is waited for.

    Raises:
        ConfigError: a bucket cannot be used or does not answer, or an address is given for a path on this machine.
    """
    for value in given:
        if isinstance(value, Location):
            reach(value)
        elif isinstance(value, Path) and _ADDRESS.match(str(value)):
            address = str(value).replace(":/", "://", 1)
            raise ConfigError(
                f"{address}: a path on this machine is needed here; name one, and copy what is in it to or from the "
                "bucket yourself"
            )


def _options_of(group: Any) -> list[inspect.Parameter]:
    """Return the annotated fields of a dataclass as parameters."""
    hints = get_type_hints(group, include_extras=True)
    fields = (each.replace(annotation=hints[name]) for name, each in inspect.signature(group).parameters.items())
    return [each for each in fields if get_origin(each.annotation) is Annotated]


@dataclass
class Verbosity:
    """Whether `hab -v` was given, as opposed to `hab run -v`, which is an option of the command."""

    tracebacks: bool = False


verbosity = Verbosity()


def _whose_bug(error: Exception) -> str:
    if package := package_blamed(error):
        return (
            f"The error comes from the package {package}, not from hab_ray: update, repair or uninstall it. What the "
            "run has stored is kept, and the same command resumes."
        )
    return "This is a bug in hab_ray. Everything paid for is kept, and the same command resumes where this one stopped;"


def say_error(error: Exception, with_traceback: bool) -> Exit:
    """Print an exception as one message; return its exit status."""
    shown = "".join(traceback.format_exception(error)) if with_traceback else ""
    first_line = (str(error).strip().splitlines() or [""])[0]
    bug = f"{type(error).__name__}: {first_line}\n{_whose_bug(error)} `hab -v ...` shows the traceback to report."
    lines = [str(problem_of(error) or bug), *getattr(error, "__notes__", ())]
    with suppress(OSError):  # a full disk may hold standard error too; the exit status still tells
        errors.print(shown, end="", markup=False, soft_wrap=True)
        errors.print("\n".join(lines), markup=False, soft_wrap=True, style="red")
    return exit_of(error)
