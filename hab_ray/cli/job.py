"""What differs where `hab` is the entry point of a Ray job (`ray job submit`).

Ray unpacks the package that was uploaded into a temporary folder, works there, and deletes it: nothing may be kept
in it. Ray keeps of a failed job the last lines of its log, and ends a job with SIGTERM and, some seconds later,
SIGKILL.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hab_ray.errors import ConfigError, Exit
from hab_ray.resources import RAY_JOB
from hab_ray.stopping import DRAIN_S

if TYPE_CHECKING:
    from hab_ray.config import Sweep
    from hab_ray.location import Location

_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
_WAIT_OF_RAY_S = 3.0
_CLEARING_UP_S = 2.0
_OF_RAY = "runtime_resources"  # Ray's folder for what it unpacks


def is_ray_job(environment: Mapping[str, str]) -> bool:
    """Whether this process is the entry point of a Ray job, or was started by it."""
    return bool(environment.get(RAY_JOB))


def refuse_paths_in_package(sweep: Sweep, folder: Path) -> None:
    """Check that a Ray job whose working directory is `folder` keeps its results and its store elsewhere.

    Raises:
        ConfigError: they would be deleted with the job's package.
    """
    lost = [f"`{key}: {place}`" for key, place in _places(sweep).items() if _is_lost(place, folder)]
    if lost:
        raise ConfigError(
            f"{' and '.join(lost)}: this is a Ray job, which works in a temporary copy of the uploaded package. Ray "
            "deletes that copy, and the next submit would pay for every call again. Give both places an address that "
            "outlives the job: put `run: s3://BUCKET/hab/runs/NAME` and `store: s3://BUCKET/hab/store` (or absolute "
            "paths on a disk that every node mounts) into the sweep, or add --run and --store to the submitted line"
        )


def _places(sweep: Sweep) -> Mapping[str, Location]:
    return {"run": sweep.run_folder, "store": sweep.store}


def _is_lost(place: Location, folder: Path) -> bool:
    """Whether a place is relative, or an absolute path into the copy of the package."""
    if not place.is_local:
        return False
    path, is_copy = Path(str(place)), _OF_RAY in folder.parts
    return not path.is_absolute() or (is_copy and path.resolve().is_relative_to(folder.resolve()))


def drain_s(environment: Mapping[str, str]) -> float:
    """How many seconds open calls get after a signal, unless the user says so: in a Ray job what Ray leaves them."""
    if not is_ray_job(environment):
        return DRAIN_S
    return min(DRAIN_S, max(0.0, _seconds(environment.get(_WAIT, "")) - _CLEARING_UP_S))


def _seconds(given: str) -> float:
    return float(given) if given.isdecimal() else _WAIT_OF_RAY_S


def stop_notice(environment: Mapping[str, str], drain: float) -> str | None:
    """What the user of a Ray job should know where `ray job stop` leaves open calls less time than they get."""
    wait = _seconds(environment.get(_WAIT, ""))
    if not is_ray_job(environment) or wait >= DRAIN_S + _CLEARING_UP_S:
        return None
    return (
        f"`ray job stop` kills this job {wait:g} s after its signal, so open calls get {drain:g} s to be answered; "
        f"what is cut off may be paid for twice. With `--runtime-env jobs/runtime_env.yaml` ({_WAIT}) they get "
        f"{DRAIN_S:g} s"
    )


def last_line(status: int) -> str:
    """The last line of a job's log: Ray keeps it in the message of a job that failed."""
    meaning = Exit(status).meaning if status in list(Exit) else "the command broke; the lines above say how"
    return f"hab ended with exit status {status}: {meaning}"
