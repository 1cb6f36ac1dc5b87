"""Starting and ending Ray for one driver."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hab_ray.catalog.addresses import cluster_address
from hab_ray.errors import ConfigError, EngineBroke, HabError
from hab_ray.visible import one_line

QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # a dispatch that was stopped is answered for by its lane
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
# By Ray's rule for systems where it makes no clusters, every server of it, that of the metrics too, is on 127.0.0.1.
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
ANSWER_S = 20.0
SERVERS = {"gcs_server": "Ray's control server (GCS)", "raylet": "Ray's node server (raylet)"}


class WorkerDied(EngineBroke):
    """One worker died or does not answer, while Ray itself may go on."""


@contextmanager
def ray_session(verbose: bool = False) -> Iterator[None]:
    """A Ray session: the cluster that RAY_ADDRESS names, else one of this process's own, gone when it is gone.

    Ray's own messages are left out unless `verbose`.

    Raises:
        ConfigError: RAY_ADDRESS names no cluster that can be joined.
        EngineBroke: a Ray of this process's own did not start.
    """
    address = cluster_address(os.environ)
    for name, value in {**QUIET, **({} if address else ON_LOOPBACK), **authentication(address, os.environ)}.items():
        os.environ.setdefault(name, value)
    if "ray" in sys.modules:
        _read_environment_again()
    import ray
    from ray.data import DataContext

    level = logging.INFO if verbose else logging.ERROR
    if not verbose:
        _leave_out_errors_of_ray()
    try:
        with warnings.catch_warnings(), _signals_are_ours(), _must_be_started(address):
            warnings.simplefilter("default" if verbose else "ignore")
            ray.init(
                address=address or "local",
                namespace="hab_ray",
                include_dashboard=None if address else False,
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


def authentication(address: str | None, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Whether Ray is talked to with a token, said explicitly; what the user has set goes before it.

    A Ray of this process's own gets a token that exists in its processes' environment alone: it opens ports, and who
    can reach them could otherwise run code beside the keys. A cluster that was there before has its own rule: with a
    token, if one was given here.
    """
    if "RAY_AUTH_MODE" in environment:
        return {}
    if address is None:
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    is_given = any(environment.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    is_kept = address == "auto" and (Path.home() / ".ray/auth_token").exists()
    return {"RAY_AUTH_MODE": "token" if is_given or is_kept else "disabled"}


def _read_environment_again() -> None:
    """Have a Ray that was imported before, as in a notebook, heed the environment: it reads it while it is imported."""
    import ray._raylet
    from ray._private import ray_constants

    if ON_LOOPBACK.items() <= os.environ.items():
        ray_constants.ENABLE_RAY_CLUSTER = False
    compiled: Any = ray._raylet
    compiled.Config.initialize("")
    compiled.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _must_be_started(address: str | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Ray raises a dozen kinds, RuntimeError and ConnectionError among them
        cause = one_line((str(error).strip().splitlines() or [type(error).__name__])[0], 300).rstrip(".")
        if address is None:
            raise EngineBroke(
                f"Ray did not start on this machine ({cause}). What was paid for is kept, and the same command tries "
                "again; `executor: local` in the sweep does without Ray, and `hab -v` shows Ray's own messages"
            ) from error
        raise ConfigError(
            f"RAY_ADDRESS={one_line(address)}: there is no Ray cluster that can be joined ({cause}). Give the address "
            "of its head as HOST:6379, on one of its nodes; with token authentication also RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN. Unset RAY_ADDRESS to run on this machine alone"
        ) from None


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
        if threading.current_thread() is threading.main_thread():  # no other may, and in a notebook none is ours
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
