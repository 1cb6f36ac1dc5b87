"""Turns a sweep file and the command line's options into work that can be planned or run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from hab_ray.cli.ending import errors
from hab_ray.cli.options import place_option
from hab_ray.cli.views.terminal import RowsRead
from hab_ray.config.sweep import Sweep, load_sweep
from hab_ray.errors import ConfigError
from hab_ray.given.rows import ROWS_READ
from hab_ray.location import Location
from hab_ray.planning import preflight
from hab_ray.planning.problems import Problem
from hab_ray.storage.simulated import refuse_simulated
from hab_ray.work import Work


@dataclass(frozen=True)
class Choices:
    """Options of the command line that override keys of the sweep file; empty ones override nothing."""

    subject: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A subject, instead of the sweep's. Repeatable.")
    ] = None
    judge: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A judge, instead of the sweep's. Repeatable.")
    ] = None
    model: Path | None = None
    run: Annotated[Location | None, place_option("PATH", "The run's folder, instead of the sweep's `run:`.")] = None
    store: Annotated[Location | None, place_option("PATH", "The store, instead of the sweep's `store:`.")] = None
    available_only: Annotated[
        bool, typer.Option("--available-only", help="Leave out subjects and judges that cannot be called.")
    ] = False
    executor: str | None = None

    def changes(self) -> Mapping[str, Any]:
        """Return the overridden top-level keys of the sweep file with their values."""
        given = {
            "run": self.run and str(self.run),
            "store": self.store and str(self.store),
            "subjects": self.subject,
            "judges": self.judge,
            "executor": self.executor,
        }
        return {key: value for key, value in given.items() if value}


@dataclass(frozen=True)
class RunChoices(Choices):
    """Those of commands that plan or run the sweep."""

    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .gguf file to use for the sweep's local chat models.")
    ] = None
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="local|ray|auto",
            help="Make online calls in this process, by Ray, or auto: by Ray for large sweeps.",
        ),
    ] = None


def prepare(path: Path, choices: Choices, now: datetime, failures_since: int = 0) -> tuple[Work, list[Problem]]:
    """Return the work of a sweep file and its preflight problems; what `--available-only` leaves out is a warning.

    Permanent failures of epochs before `failures_since` count as open calls. Raise ConfigError if it cannot be
    resolved, or its folders belong to a rehearsal.
    """
    ROWS_READ.set(RowsRead(errors))
    sweep = chosen_sweep(path, choices)
    if not (choices.run or choices.store):
        preflight.refuse_second_run(sweep, path)
    refuse_simulated(sweep)
    work, problems = preflight.prepare(sweep, now, failures_since)
    if not choices.available_only:
        return work, problems
    work, others = preflight.prepare(preflight.available_only(work.sweep, problems), now, failures_since)
    return work, [*preflight.left_out(problems), *others]


def chosen_sweep(path: Path, choices: Choices) -> Sweep:
    """Read a sweep file and apply `choices`; resolve and fetch nothing. Raise ConfigError if it cannot be read."""
    sweep = load_sweep(path, choices.changes())
    if choices.model is None:
        return sweep
    if not choices.model.is_file():
        raise ConfigError(f"--model {choices.model}: no such file; give the path of a .gguf file")
    changed = sweep.on_local_weights(choices.model.resolve())
    if changed.model_names() == sweep.model_names():
        raise ConfigError(
            f"--model {choices.model}: {path} has no local chat model that it would replace; leave it out"
        )
    return changed
