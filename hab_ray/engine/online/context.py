"""What an online engine needs from its surroundings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.limits.protocol import LimiterClient


@dataclass(frozen=True)
class OnlineContext:
    """Clocks, the lease, and connections to the rate limiter and the budget.

    `clock` gives monotonic seconds, `utc_now` wall time in UTC. A call that an overloaded model refuses is sent again
    for `patience_s` seconds. `check_lease` raises LeaseStale while nothing may be spent, LeaseLost once nothing may be
    spent any more. `check_write` does so as a request is written; None where the lease cannot change hands before.
    `free_disk_space` releases space kept in reserve, so that paid replies fit on a full disk.
    """

    clock: Callable[[], float]
    utc_now: Callable[[], datetime]
    patience_s: float
    check_lease: Callable[[], None]
    check_write: Callable[[], None] | None
    limiter: LimiterClient
    budget: BudgetService
    free_disk_space: Callable[[], None]
