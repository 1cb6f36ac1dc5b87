"""HumanAgencyBench as a distributed batch-processing system.

Importing this package imports neither Ray nor a vendor's SDK nor pyarrow: each is imported where it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from hab_ray.results import Run

__all__ = ["__version__", "open_run"]
__version__ = "0.1.0"


def open_run(location: str | Path) -> Run:
    """Open the folder of a run for reading; it may be unfinished, or being written at this moment.

    The run gives its tests, responses, verdicts and scores as Arrow tables (`.to_pandas()` works on them), the
    settings that were sent, and transcripts. See `hab_ray.results`.

    Raises:
        hab_ray.errors.ConfigError: there is no run, or its sweep.yaml is damaged or a newer version's.
    """
    from hab_ray.results import open_run as opened

    return opened(location)
