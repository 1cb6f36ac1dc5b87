"""What `hab` does differently as the entry point of a Ray job (`ray job submit`).

Ray runs a job in a temporary folder and deletes it afterwards, so nothing to keep may be written there. `ray job stop`
sends SIGTERM and, a few seconds later, SIGKILL. Of a failed job Ray shows only the last lines of its log.
"""

from collections.abc import Mapping

from hab_ray.errors import Exit
from hab_ray.resources import is_ray_job
from hab_ray.stopping import DRAIN_S

_STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
_DEFAULT_STOP_WAIT_S = 3.0
_CLEANUP_S = 2.0


def drain_s(environment: Mapping[str, str]) -> float:
    """Return the default number of seconds to wait for open calls after a signal; in a Ray job at most Ray's wait."""
    if not is_ray_job(environment):
        return DRAIN_S
    return min(DRAIN_S, max(0.0, _stop_wait_s(environment) - _CLEANUP_S))


def _stop_wait_s(environment: Mapping[str, str]) -> float:
    value = environment.get(_STOP_WAIT, "")
    return float(value) if value.isdecimal() else _DEFAULT_STOP_WAIT_S


def stop_notice(environment: Mapping[str, str], drain: float) -> str | None:
    """Return a warning if `ray job stop` would kill this job before open calls have had `DRAIN_S`, else None."""
    wait = _stop_wait_s(environment)
    if not is_ray_job(environment) or wait >= DRAIN_S + _CLEANUP_S:
        return None
    return (
        f"`ray job stop` kills this job {wait:g} s after its signal, so open calls get {drain:g} s to be answered; "
        f"calls that are cut off may be paid for twice. With `--runtime-env jobs/runtime_env.yaml` ({_STOP_WAIT}) they "
        f"get {DRAIN_S:g} s"
    )


def last_line(status: int) -> str:
    """Return the last line of a job's log, which Ray copies into the message of a failed job."""
    meaning = Exit(status).meaning if status in list(Exit) else "the command crashed; see the lines above"
    return f"hab ended with exit status {status}: {meaning}"
