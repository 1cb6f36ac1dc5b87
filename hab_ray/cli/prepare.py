"""From a sweep file and the command line's options to work that is ready to be planned or run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hab_ray.cli.ending import errors
from hab_ray.cli.importing import RowsRead
from hab_ray.cli.job import is_ray_job, refuse_paths_in_package
from hab_ray.cluster.session import cluster_address
from hab_ray.config import Sweep, load_sweep
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.preflight import Problem, available_only, preflight
from hab_ray.resolve import resolve
from hab_ray.resources import bundled
from hab_ray.storage.format import refuse_newer
from hab_ray.storage.given import ROWS_READ
from hab_ray.storage.reach import reach
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
    ROWS_READ.set(RowsRead(errors, time.monotonic))
    sweep = sweep_of(path, choices)
    if is_ray_job(os.environ):
        refuse_paths_in_package(sweep, Path.cwd())
    if sweep.executor != "local":
        cluster_address(os.environ)
    reach(sweep.run_folder)
    refuse_newer(reach(sweep.store), f"store at {sweep.store}")
    work = resolve(sweep, now)
    problems = preflight(work, os.environ, now.date())
    if not choices.available_only:
        return work, problems
    work = resolve(available_only(work.sweep, problems), now)
    return work, preflight(work, os.environ, now.date())


def sweep_of(path: Path, choices: Choices) -> Sweep:
    """The sweep of a file as the command line changes it; nothing is resolved or fetched.

    Raises:
        ConfigError: it cannot be read.
    """
    sweep = load_sweep(shipped_or_own(path), choices.changes())
    if choices.model is None:
        return sweep
    if not choices.model.is_file():
        raise ConfigError(f"--model {choices.model}: there is no such file; give the path of a .gguf file")
    return sweep.on_local_weights(choices.model.resolve())


def shipped_or_own(path: Path) -> Path:
    """The file itself, else the sweep of this name that ships with the package."""
    if path.exists() or path.parts[:1] != ("jobs",):
        return path
    shipped = Path(str(bundled("jobs").joinpath(*path.parts[1:])))
    return shipped if shipped.is_file() else path
