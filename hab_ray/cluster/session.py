"""Starting and ending Ray for one driver."""

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
from hab_ray.errors import ConfigError, EngineBroke
from hab_ray.visible import one_line

QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # lanes report the errors of stopped dispatches
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
# With clusters disabled, as on Windows and macOS, all of Ray's servers, including metrics, listen on 127.0.0.1 only.
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
ANSWER_S = 20.0
SERVERS = {"gcs_server": "Ray's control server (GCS)", "raylet": "Ray's node server (raylet)"}


class WorkerDied(EngineBroke):
    """A worker died or does not answer, but Ray itself may still work."""


@contextmanager
def ray_session(verbose: bool = False) -> Iterator[None]:
    """Connect to the cluster that RAY_ADDRESS names, or else start a Ray that ends with this process.

    Ray's own messages are hidden unless `verbose`.

    Raises:
        ConfigError: the cluster that RAY_ADDRESS names cannot be joined.
        EngineBroke: Ray did not start on this machine.
    """
    address = cluster_address(os.environ)
    for name, value in {**QUIET, **({} if address else ON_LOOPBACK), **authentication(address, os.environ)}.items():
        os.environ.setdefault(name, value)
    if "ray" in sys.modules:
        _reload_environment()
    import ray
    from ray.data import DataContext

    level = logging.INFO if verbose else logging.ERROR
    if not verbose:
        from ray._private import worker

        # Not the logs of a server that dies: EngineBroke reports it in one line.
        worker.print_to_stdstream = lambda *_, **__: None
    try:
        with warnings.catch_warnings(), _own_signals(), _start_errors_explained(address):
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
    """Return the environment variables of Ray's authentication, unless the user has set them.

    A Ray that this process starts gets a random token, which exists only in the environment of its processes: without
    it, anyone who can reach Ray's ports could run code next to the API keys. An existing cluster is accessed with a
    token if one is configured here.
    """
    if "RAY_AUTH_MODE" in environment:
        return {}
    if address is None:
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    is_given = any(environment.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    is_kept = address == "auto" and (Path.home() / ".ray/auth_token").exists()
    return {"RAY_AUTH_MODE": "token" if is_given or is_kept else "disabled"}


def _reload_environment() -> None:
    """Apply the environment to a Ray that was imported earlier, as in a notebook: Ray reads it on import."""
    import ray._raylet
    from ray._private import ray_constants

    if ON_LOOPBACK.items() <= os.environ.items():
        ray_constants.ENABLE_RAY_CLUSTER = False
    compiled: Any = ray._raylet
    compiled.Config.initialize("")
    compiled.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _start_errors_explained(address: str | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Ray raises many kinds, including RuntimeError and ConnectionError
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
def _own_signals() -> Iterator[None]:
    """Start Ray so that Ctrl-C and SIGTERM, sent to this process or its group, reach this process and not Ray.

    Ray has no setting for this. It replaces our SIGTERM handler, and it starts its servers (GCS, raylet) in our process
    group, where Ctrl-C in a terminal, the end of a job or `kill -TERM -<group>` would end them while we still wait for
    calls in flight.
    """
    from ray._private import services, utils

    popen, set_handler = services.ConsolePopen, utils.set_sigterm_handler
    services.ConsolePopen = partial(popen, process_group=0)  # type: ignore[misc, assignment]
    utils.set_sigterm_handler = lambda _: None
    try:
        yield
    finally:
        services.ConsolePopen, utils.set_sigterm_handler = popen, set_handler  # type: ignore[misc]
        if threading.current_thread() is threading.main_thread():  # only this thread may set handlers
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))  # Ray's C++ code has replaced Python's


def check_servers() -> None:
    """Check that the servers of a Ray started here are alive, because a call to a dead one may block for minutes.

    Raises:
        EngineBroke: a server died.
    """
    from ray._private import worker

    node = worker._global_node
    dead: set[str] = {kind for kind, _ in node.dead_processes()} if node else set()
    for kind in dead & SERVERS.keys():
        raise EngineBroke(_broke(SERVERS[kind]))


def finished(refs: Sequence[Any]) -> list[Any]:
    """Return those references that are ready."""
    import ray

    return list(ray.wait(list(refs), num_returns=len(refs), timeout=0)[0]) if refs else []


def result(ref: Any, who: str, timeout_s: float | None = ANSWER_S) -> Any:
    """Return the value of a reference within `timeout_s` seconds; `who` names its process in messages.

    Raises:
        EngineBroke: the process died or does not answer.
        Exception: the process raised it.
    """
    import ray

    try:
        return ray.get(ref, timeout=timeout_s)
    except ray.exceptions.RayError as error:
        raise as_our_error(error, who) from error


def as_our_error(error: Exception, who: str = "") -> Exception:
    """Convert an error of Ray into what a task raised, or one of ours that says what broke; return others unchanged."""
    from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

    if isinstance(error, RayTaskError):
        cause = error.cause
        if type(cause) is RayError:  # in place of an error that cannot be sent, which it quotes
            return EngineBroke(f"{who or 'a worker'}: {one_line(str(cause), 300)}")
        if isinstance(cause, RayError | TimeoutError):
            return EngineBroke(_broke(f"the process that keeps the budget or the rate limits for {who or 'a worker'}"))
        return cause if isinstance(cause, Exception) else error
    if isinstance(error, GetTimeoutError):
        return WorkerDied(_broke(who or "a process of Ray", "does not answer"))
    if isinstance(error, RayActorError):
        return WorkerDied(_broke(who or "a process of Ray"))
    if isinstance(error, RayError):
        return EngineBroke(_broke(who or "a process of Ray"))
    return error


def _broke(who: str, how: str = "died") -> str:
    return f"{who} {how}; what was paid for is kept; run the same command again to resume"
