"""Options of a run."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from hab_ray.progress import Progress
from hab_ray.stages.graph import Shard
from hab_ray.stopping import DRAIN_S
from hab_ray.work import Work


@dataclass(frozen=True)
class Options:
    """Options of a run.

    `new_id` makes a copied folder a separate run. `retry_failed` sends calls with stored permanent failures again.
    `detach` ends the run once every batch is submitted. `with_names` keeps the names of human raters.

    `begun` is called once the store is held and the run is recorded. `chosen` is called for each shard of computed,
    now frozen rows (chosen tests), after they are in the run folder and before any call that reads them is sent.
    `watch` receives progress in a separate thread. Once the user stops the run, calls in flight have `drain_s` seconds.
    """

    new_id: bool = False
    retry_failed: bool = False
    detach: bool = False
    with_names: bool = False
    verbose: bool = False
    begun: Callable[[Work], None] = lambda _: None
    chosen: Callable[[Shard], None] = lambda _: None
    watch: Callable[[Progress], None] = lambda _: None
    drain_s: float = DRAIN_S

    @property
    def failures_since(self) -> int:
        """The epoch before which permanent failures count as open calls, as far as it is known before the run's own."""
        return sys.maxsize if self.retry_failed else 0
