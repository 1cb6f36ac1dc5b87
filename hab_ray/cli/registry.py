"""How a command of `hab` makes itself known: by its file in a folder of `hab_ray/cli/commands`, which nothing names.

The file is called as the command, with _ behind it where Python has taken the word. Its first line is what `hab
--help` says of it. Its `command` is a function that typer can call, under `ends_with_status`, or a `typer.Typer` of
several; it is imported once the command is given. Another distribution adds a command by an entry point of the group
`hab_ray.commands`, which names such a function or Typer; none takes the place of one of ours.
"""

from __future__ import annotations

from pathlib import Path
from types import FunctionType
from typing import Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from hab_ray.cli import commands
from hab_ray.cli.ending import say_error, verbosity
from hab_ray.errors import Exit, HabError
from hab_ray.resources import Extensions, distribution

_FILES = {file.stem.rstrip("_"): file for file in sorted(Path(commands.__path__[0]).glob("*/[!_]*.py"))}
COMMANDS = Extensions(
    group="hab_ray.commands",
    word="command",
    built_in={name: f"{commands.__name__}.{file.parent.name}.{file.stem}:command" for name, file in _FILES.items()},
    remedy="`hab --help` says what each does",
)


class CommandGroup(TyperGroup):
    """The commands there are; until one is given only its name and its line of help are known."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        about = {name: _first_line(file) for name, file in _FILES.items()}
        about |= {entry.name: f"Added by the package {distribution(entry)}." for entry in COMMANDS.added()}
        self.commands = {name: typer.core.TyperCommand(name, help=about[name]) for name in sorted(about)}

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, stub, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, stub, rest
        try:
            return name, _loaded(name), rest
        except KeyboardInterrupt:
            raise typer.Exit(int(Exit.INTERRUPTED)) from None
        except HabError as error:
            raise typer.Exit(say_error(error, verbosity.tracebacks)) from None


def _first_line(file: Path) -> str:
    """What stands behind the colon in the first line of a command's file."""
    with file.open(encoding="utf-8") as opened:
        told = opened.readline().partition(": ")[2].strip().rstrip('"')
    return told[:1].upper() + told[1:]


def _loaded(name: str) -> Any:
    alone = typer.Typer(rich_markup_mode=None)
    found = COMMANDS.load(name, object)
    with COMMANDS.blamed(COMMANDS.find(name)):
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=name)
        elif isinstance(found, FunctionType):
            alone.command(name)(found)
        else:
            raise TypeError(f"it is a {type(found).__name__}, neither a function nor a typer.Typer")
        return typer.main.get_group(alone).commands[name]
