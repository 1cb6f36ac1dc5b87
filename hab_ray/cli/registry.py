"""Finds the commands of `hab`: each file in a folder of `hab_ray/cli/commands` is one.

The file has the command's name, followed by _ if that is a Python keyword. Its first line is the command's line in
`hab --help`. Its `command` is a function for typer, decorated with `ends_with_status`, or a `typer.Typer` of
subcommands; it is imported only when the command is given. Other distributions add commands by entry points of the
group `hab_ray.commands` that name such a function or Typer; they cannot replace a built-in command.
"""

from pathlib import Path
from types import FunctionType
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup
from typing_extensions import override

from hab_ray.cli import commands
from hab_ray.cli.ending import say_error, verbosity
from hab_ray.errors import Exit, HabError
from hab_ray.resources import Extensions, distribution
from hab_ray.visible import one_line

_FILES = {file.stem.rstrip("_"): file for file in sorted(Path(commands.__path__[0]).glob("*/[!_]*.py"))}
COMMANDS = Extensions(
    group="hab_ray.commands",
    word="command",
    built_in={name: f"{commands.__name__}.{file.parent.name}.{file.stem}:command" for name, file in _FILES.items()},
    remedy="`hab --help` says what each does",
)


class CommandGroup(TyperGroup):
    """All commands by name and help line; a command is imported only when it is given."""

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
            return name, _load(name), rest
        except KeyboardInterrupt:
            raise typer.Exit(int(Exit.INTERRUPTED)) from None
        except HabError as error:
            raise typer.Exit(say_error(error, verbosity.tracebacks)) from None

    @override
    def invoke(self, ctx: Any) -> Any:
        """Run the command; name what is wrong with an option in plain words, where typer shows pydantic's."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            from hab_ray.inputs.files import plain_words

            if isinstance(error.__cause__, ValidationError):
                error.message = one_line(plain_words(error.__cause__.errors()[0]))
            raise


class PlainArgument(TyperArgument):
    """An argument as most tools show it: SWEEP if it is required, [SWEEP] if not, and without its Python type."""

    @override
    def get_usage_pieces(self, ctx: Any) -> list[str]:
        name = self._shown if self.required else f"[{self._shown}]"
        return [name if self.nargs == 1 else f"{name}..."]

    @override
    def get_help_record(self, ctx: Any) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return record and (self._shown, record[1])

    @property
    def _shown(self) -> str:
        return self.metavar or str(self.name).upper()


def _first_line(file: Path) -> str:
    """Return the text after the colon in the first line of a command's file, capitalised."""
    with file.open(encoding="utf-8") as opened:
        text = opened.readline().partition(": ")[2].strip().rstrip('"')
    return text[:1].upper() + text[1:]


def _load(name: str) -> Any:
    parent = typer.Typer(rich_markup_mode=None)
    loaded = COMMANDS.load(name, object)
    with COMMANDS.blamed(COMMANDS.find(name)):
        if isinstance(loaded, typer.Typer):
            parent.add_typer(loaded, name=name)
        elif isinstance(loaded, FunctionType):
            parent.command(name)(loaded)
        else:
            raise TypeError(f"it is a {type(loaded).__name__}, neither a function nor a typer.Typer")
        return _with_plain_arguments(typer.main.get_group(parent).commands[name])


def _with_plain_arguments(command: Any) -> Any:
    """Make typer's arguments of a command and its subcommands plain; typer has no option for their class."""
    for each in (command, *getattr(command, "commands", {}).values()):
        for parameter in each.params:
            if type(parameter) is TyperArgument:
                parameter.__class__ = PlainArgument
    return command
