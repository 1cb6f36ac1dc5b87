"""How a run is driven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hab_ray.progress import Progress
from hab_ray.stages.graph import Shard
from hab_ray.stopping import DRAIN_S
from hab_ray.sweep.raters import PeopleAs
from hab_ray.work import Work


@dataclass(frozen=True)
class Options:
    """How a run is driven.

    `new_id` makes a copied folder a run of its own. `retry_failed` sends stored permanent failures again. `detach` ends
    the run once all that can be sent by batch is at the vendors. `people` is what the run calls those who rated.

    `begun` is called once the store is held and the run is recorded. `chosen` is called for each shard whose rows were
    computed and are frozen from now on (chosen tests), once they are in the run folder and before anything that reads
    them is sent. `watch` shows progress in a thread of its own. Once the user stops the run, what is in flight has
    `drain_s` seconds.
    """

    new_id: bool = False
    retry_failed: bool = False
    detach: bool = False
    people: PeopleAs = PeopleAs.PSEUDONYMS
    verbose: bool = False
    begun: Callable[[Work], None] = lambda _: None
    chosen: Callable[[Shard], None] = lambda _: None
    watch: Callable[[Progress], None] = lambda _: None
    drain_s: float = DRAIN_S
