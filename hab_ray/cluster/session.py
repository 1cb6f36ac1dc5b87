"""Starting and ending Ray for one driver."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hab_ray.errors import ConfigError

QUIET = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}


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
    on_sigterm = signal.getsignal(signal.SIGTERM)
    with warnings.catch_warnings():
        warnings.simplefilter("default" if verbose else "ignore")
        ray.init(
            address=os.environ.get("RAY_ADDRESS") or "local",
            namespace="hab_ray",
            include_dashboard=False if "RAY_ADDRESS" not in os.environ else None,
            log_to_driver=verbose,
            logging_level=level,
            configure_logging=verbose,
        )
    signal.signal(signal.SIGTERM, on_sigterm)  # Ray replaces it by its own
    context = DataContext.get_current()
    context.enable_progress_bars = verbose
    context.print_on_execution_start = verbose
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(level)
    try:
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
        _must_share_files(sum(node["Alive"] for node in nodes))
        yield
    finally:
        ray.shutdown()


def _must_share_files(nodes: int) -> None:
    if nodes > 1:
        raise ConfigError(
            f"the Ray cluster has {nodes} nodes, and run and store are folders on this machine's disk, which the "
            "others cannot read; run on a cluster of one node"
        )


def finished(refs: Sequence[Any], timeout_s: float) -> list[Any]:
    """The references that have ended, after at most `timeout_s` seconds of waiting for the first."""
    import ray

    first, _ = ray.wait(list(refs), num_returns=1, timeout=timeout_s)
    if not first:
        return []
    done, _ = ray.wait(list(refs), num_returns=len(refs), timeout=0)
    return list(done)


def result(ref: Any) -> Any:
    """What a finished reference holds; raises what its task raised."""
    import ray

    return ray.get(ref)
