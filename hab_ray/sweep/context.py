"""Dependencies of a run's driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hab_ray.catalog.prices import Mode
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import Executor, Service, Workers
from hab_ray.stages.graph import Shard


@dataclass(frozen=True)
class DriverContext:
    """Dependencies of the driver.

    `workers` returns the workers that settle and compute now; `services` are all sources of events. `clock` returns
    monotonic seconds; `wait` sleeps for the given seconds or until a service has an event. `check` raises Interrupted
    once the user stops the run and LeaseLost once another driver holds the store. `keep` stores the possible cost of
    calls without an answer. `chosen` is called for each computed and published shard, before its readers are
    dispatched. `report` shows progress.
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
