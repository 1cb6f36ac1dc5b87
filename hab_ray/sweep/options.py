"""How a run is driven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hab_ray.progress import Progress
from hab_ray.stopping import DRAIN_S, Stop


@dataclass(frozen=True)
class Options:
    """How a run is driven. `retry_failed` sends stored permanent failures again; `watch` sees every progress.

    `detach` ends the run once all that can be sent by batch is at the vendors. Once `stop` is requested, what is in
    flight has `drain_s` seconds.
    """

    retry_failed: bool = False
    detach: bool = False
    verbose: bool = False
    watch: Callable[[Progress], None] = lambda _: None
    stop: Stop = field(default_factory=Stop)
    drain_s: float = DRAIN_S
