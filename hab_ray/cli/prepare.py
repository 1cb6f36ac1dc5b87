"""From a sweep file and the command line's options to work that is ready to be planned or run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hab_ray.cli.ending import errors
from hab_ray.cli.views.terminal import RowsRead
from hab_ray.config.sweep import Sweep, load_sweep
from hab_ray.errors import ConfigError
from hab_ray.given.rows import ROWS_READ
from hab_ray.location import Location
from hab_ray.planning import preflight
from hab_ray.planning.preflight import Problem
from hab_ray.work import Work


@dataclass(frozen=True)
class Choices:
    """What the command line says about a sweep; empty leaves the sweep file's word."""

    model: Path | None = None
    run: Location | None = None
    store: Location | None = None
    subjects: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    available_only: bool = False
    executor: str | None = None

    def changes(self) -> Mapping[str, Any]:
        """The top-level keys of the sweep file that are replaced."""
        given = {
            "run": self.run and str(self.run),
            "store": self.store and str(self.store),
            "subjects": list(self.subjects),
            "judges": list(self.judges),
            "executor": self.executor,
        }
        return {key: value for key, value in given.items() if value}


def prepare(path: Path, choices: Choices, now: datetime) -> tuple[Work, list[Problem]]:
    """The work of a sweep file, and what stands in its way.

    Raises:
        ConfigError: the sweep cannot be resolved at all.
    """
    ROWS_READ.set(RowsRead(errors))
    work, problems = preflight.prepare(sweep_of(path, choices), now)
    if not choices.available_only:
        return work, problems
    return preflight.prepare(preflight.available_only(work.sweep, problems), now)


def sweep_of(path: Path, choices: Choices) -> Sweep:
    """The sweep of a file as the command line changes it; nothing is resolved or fetched.

    Raises:
        ConfigError: it cannot be read.
    """
    sweep = load_sweep(path, choices.changes())
    if choices.model is None:
        return sweep
    if not choices.model.is_file():
        raise ConfigError(f"--model {choices.model}: there is no such file; give the path of a .gguf file")
    return sweep.on_local_weights(choices.model.resolve())
