"""What the driver of a run works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hab_ray.catalog.prices import Mode
from hab_ray.executors.protocol import Executor, Service, Spool, Workers
from hab_ray.stages.graph import Shard


class Files(Protocol):
    """What the driver does with pending files; see `executors.pending.Pending`."""

    def publish(self, order: int, view: str) -> None:
        """Have a view that was written for this order replace the published one."""

    def discard(self, order: int) -> None:
        """Remove all files of an order."""

    def remove(self, spool: Spool) -> None:
        """Remove a spool."""

    def row_ids(self, spool: Spool) -> list[str]:
        """The ids of a spool's rows."""


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
    files: Files
    clock: Callable[[], float]
    wait: Callable[[float], None]
    check: Callable[[], None]
    keep: Callable[[], None]
    chosen: Callable[[Shard], None]
    report: Callable[[], None]
