"""How a run is driven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hab_ray.progress import Progress
from hab_ray.stages.graph import Shard
from hab_ray.stopping import DRAIN_S, Stop
from hab_ray.sweep.raters import PeopleAs

SHOW_EVERY_S = 0.1


@dataclass(frozen=True)
class Options:
    """How a run is driven. `retry_failed` sends stored permanent failures again. `people` is what the run calls
    those who rated.

    `chosen` is called for each shard whose rows were computed and are frozen from now on (chosen tests), once they are
    in the run folder and before anything that reads them is sent. `watch` only shows progress: it sees one every
    `show_every_s` at most. `detach` ends the run once all that can be sent by batch is at the vendors. Once `stop` is
    requested, what is in flight has `drain_s` seconds.
    """

    retry_failed: bool = False
    detach: bool = False
    people: PeopleAs = PeopleAs.PSEUDONYMS
    verbose: bool = False
    chosen: Callable[[Shard], None] = lambda _: None
    watch: Callable[[Progress], None] = lambda _: None
    show_every_s: float = SHOW_EVERY_S
    stop: Stop = field(default_factory=Stop)
    drain_s: float = DRAIN_S
