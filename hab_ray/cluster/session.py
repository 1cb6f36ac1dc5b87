"""Starting and ending Ray for one driver."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_QUIET = {
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
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import ray
    from ray.data import DataContext

    level = logging.INFO if verbose else logging.ERROR
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
    context = DataContext.get_current()
    context.enable_progress_bars = verbose
    context.print_on_execution_start = verbose
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        ray.shutdown()
