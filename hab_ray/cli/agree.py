"""The question before money is spent."""

from __future__ import annotations

import sys

import typer

from hab_ray.cli.ending import console
from hab_ray.errors import ConfigError, Interrupted


def ask_to_spend(what: str) -> None:
    """Ask whether to spend on what was just shown.

    Raises:
        ConfigError: nobody is there to answer.
        Interrupted: the answer was no.
    """
    if not console.is_terminal or not sys.stdin.isatty():
        raise ConfigError(f"{what} costs money: look at what is shown above, then give the command again with --yes")
    if not typer.confirm("Spend this?", default=False):
        raise Interrupted("nothing was sent")
