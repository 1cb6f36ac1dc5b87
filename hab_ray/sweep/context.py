"""What the driver of a run works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hab_ray.catalog.prices import Mode
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import Executor, Service, Workers
from hab_ray.stages.graph import Shard


@dataclass(frozen=True)
class DriverContext:
    """What the driver works with.

    `workers` settle and compute from now on; `services` are all that have events. `clock` is monotonic seconds; `wait`
    sleeps so many seconds, or until a service has something to say. `check` raises Interrupted once the user stops
    the run and LeaseLost once another driver has the store; `keep` makes durable what calls without an answer may have
    cost. `chosen` is called for each shard that was computed and published, before its readers are dispatched; `report`
    shows how far the run is, or not.
    """

    executors: Mapping[Mode, Executor]
    workers: Callable[[], Workers]
    services: Sequence[Service]
    files: Pending
    clock: Callable[[], float]
    wait: Callable[[float], None]
    check: Callable[[], None]
    keep: Callable[[], None]
    chosen: Callable[[Shard], None]
    report: Callable[[], None]
