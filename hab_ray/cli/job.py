"""What differs where `hab` is the entry point of a Ray job (`ray job submit`).

Ray unpacks the package that was uploaded into a temporary folder, works there, and deletes it: nothing may be kept
in it. Ray keeps of a failed job the last lines of its log, and ends a job with SIGTERM and, some seconds later,
SIGKILL.
"""

from __future__ import annotations

from collections.abc import Mapping

from hab_ray.errors import Exit
from hab_ray.resources import is_ray_job
from hab_ray.stopping import DRAIN_S

_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
_WAIT_OF_RAY_S = 3.0
_CLEARING_UP_S = 2.0


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
