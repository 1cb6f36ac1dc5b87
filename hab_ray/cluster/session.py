"""Starting and ending Ray for one driver."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from hab_ray.errors import EngineBroke, HabError

QUIET = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
ANSWER_S = 20.0
SERVERS = {"gcs_server": "Ray's control server (GCS)", "raylet": "Ray's node server (raylet)"}


class WorkerDied(EngineBroke):
    """One worker died or does not answer, while Ray itself may go on."""


@contextmanager
def ray_session(verbose: bool = False) -> Iterator[None]:
    """A Ray session: the cluster that RAY_ADDRESS names, else one of this process's own, gone when it is gone.

    Ray's own messages are left out unless `verbose`.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray
    from ray.data import DataContext

    level = logging.INFO if verbose else logging.ERROR
    if not verbose:
        _leave_out_errors_of_ray()
    try:
        with warnings.catch_warnings(), _signals_are_ours():
            warnings.simplefilter("default" if verbose else "ignore")
            ray.init(
                address=os.environ.get("RAY_ADDRESS") or "local",
                namespace="hab_ray",
                include_dashboard=False if "RAY_ADDRESS" not in os.environ else None,
                log_to_driver=verbose,
                logging_level=level,
                configure_logging=verbose,
            )
        context = DataContext.get_current()
        context.enable_progress_bars = verbose
        context.print_on_execution_start = verbose
        for name in ("ray", "ray.data"):
            logging.getLogger(name).setLevel(level)
        yield
    finally:
        ray.shutdown()


@contextmanager
def _signals_are_ours() -> Iterator[None]:
    """Start Ray so that Ctrl-C and SIGTERM, to this process or to its group, reach us and not Ray.

    Ray has no setting for either. It puts a SIGTERM handler of its own in place of ours; and its servers (GCS,
    raylet) would be in our process group, where a terminal's Ctrl-C, a job's end or `kill -TERM -<group>` ends them
    under the calls that we want to wait for.
    """
    from ray._private import services, utils

    popen, set_handler = services.ConsolePopen, utils.set_sigterm_handler
    services.ConsolePopen = partial(popen, process_group=0)  # type: ignore[misc, assignment]
    utils.set_sigterm_handler = lambda _: None
    try:
        yield
    finally:
        services.ConsolePopen, utils.set_sigterm_handler = popen, set_handler  # type: ignore[misc]
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))  # Ray's C++ put its own beneath Python's


def _leave_out_errors_of_ray() -> None:
    """Keep Ray from printing twenty lines of its servers' logs when one of them dies: EngineBroke says it in one."""
    from ray._private import worker

    worker.print_to_stdstream = lambda *_, **__: None


def must_be_alive() -> None:
    """Check that the servers of a Ray of our own live: a call to a dead one may wait for minutes.

    Raises:
        EngineBroke: one of them died.
    """
    from ray._private import worker

    node = worker._global_node
    dead: set[str] = {kind for kind, _ in node.dead_processes()} if node else set()
    for kind in dead & SERVERS.keys():
        raise EngineBroke(_broke(SERVERS[kind]))


def finished(refs: Sequence[Any]) -> list[Any]:
    """Those references that have ended."""
    import ray

    return list(ray.wait(list(refs), num_returns=len(refs), timeout=0)[0]) if refs else []


def result(ref: Any, who: str, timeout_s: float | None = ANSWER_S) -> Any:
    """What a reference holds, after at most `timeout_s` seconds; `who` was asked for it.

    Raises:
        EngineBroke: that process died, or does not answer.
        HabError, OSError: what it raised itself.
    """
    import ray

    try:
        return ray.get(ref, timeout=timeout_s)
    except ray.exceptions.RayError as error:
        raise named(error, who) from None


def named(error: Exception, who: str = "") -> Exception:
    """An error of Ray as one of ours, which says what broke; any other as it is."""
    from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

    if isinstance(error, RayTaskError):
        cause = error.cause
        if isinstance(cause, RayError | TimeoutError):
            return EngineBroke(_broke(f"the process that keeps the budget or the rate limits for {who or 'a worker'}"))
        return cause if isinstance(cause, HabError | OSError) else error
    if isinstance(error, GetTimeoutError):
        return WorkerDied(_broke(who or "a process of Ray", "does not answer"))
    if isinstance(error, RayActorError):
        return WorkerDied(_broke(who or "a process of Ray"))
    if isinstance(error, RayError):
        return EngineBroke(_broke(who or "a process of Ray"))
    return error


def _broke(who: str, how: str = "died") -> str:
    return f"{who} {how}; what was paid for is kept, and the same command goes on where this ended"
