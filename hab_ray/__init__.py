"""HumanAgencyBench as a distributed batch-processing system.

    import hab_ray

    hab_ray.plan("jobs/small.yaml").total.online     what it costs, in nano-dollars
    run = hab_ray.run("jobs/small.yaml")             spends it
    run = hab_ray.open_run("runs/small")             reads what came out

Importing this package imports neither Ray nor a vendor's SDK nor pyarrow: each is imported where it is needed.
"""

from __future__ import annotations

TYPE_CHECKING = False  # for type checkers true, as in `typing`, which takes a third of the time until Ctrl-C is heard
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from hab_ray.config.sweep import Sweep
    from hab_ray.planning import Plan
    from hab_ray.progress import Progress
    from hab_ray.results import Run

__all__ = ["__version__", "open_run", "plan", "run"]
__version__ = "0.1.0"


def run(
    sweep: str | Path | Mapping[str, Any] | Sweep,
    *,
    retry_failed: bool = False,
    detach: bool = False,
    watch: Callable[[Progress], None] | None = None,
) -> Run:
    """Run a sweep (its file, its keys, or a `hab_ray.config.sweep.Sweep`) as far as it goes, and open what came out.

    As `hab run --yes`: it spends without asking, within the sweep's `budget:`, and the same call again goes on where
    this one ended, paying for nothing twice. `retry_failed` and `detach` are the options of that command; `watch` is
    told how far the run is, several times a second. `hab_ray.results.progress` says how it ended. An event loop may be
    running, as in a notebook. Ctrl-C, SIGTERM and SIGHUP send nothing more and wait until open calls are answered, 20 s
    at most; a second one waits no longer. Only the main thread hears them: to stop a run in another one, also by
    `asyncio.to_thread`, raise KeyboardInterrupt in `watch`.

    Raises:
        hab_ray.errors.ConfigError: the sweep cannot be run; each line names a key and the remedy.
        hab_ray.errors.StoreHeld: another process drives its store.
        hab_ray.errors.HabError: the run could not continue; what was paid for is kept.
        KeyboardInterrupt: the user ended it.
    """
    from hab_ray.sweep.options import Options
    from hab_ray.sweep.public import run as driven

    options = Options(retry_failed=retry_failed, detach=detach, watch=watch or (lambda progress: None))
    return driven(sweep, options)


def plan(sweep: str | Path | Mapping[str, Any] | Sweep) -> Plan:
    """What a run of a sweep still has to ask, what that costs, in nano-dollars, and how long it takes.

    Nothing is sent, and nothing is written; what stands in the run's way is logged. `plan(...).total` has the figures
    of all calls together, `.lines` those of each stage, model and dimension.

    Raises:
        hab_ray.errors.ConfigError: the sweep cannot be run; each line names a key and the remedy.
    """
    from hab_ray.sweep.public import plan as planned

    return planned(sweep)


def open_run(location: str | Path) -> Run:
    """Open the folder of a run for reading; it may be unfinished, or being written at this moment.

    The run gives its tests, responses, verdicts and scores as Arrow tables (`.to_pandas()` works on them), the
    settings that were sent, and transcripts. See `hab_ray.results`.

    Raises:
        hab_ray.errors.ConfigError: there is no run, or its sweep.yaml is damaged or a newer version's.
    """
    from hab_ray.results import open_run as opened

    return opened(location)
