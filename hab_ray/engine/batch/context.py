"""What a batch engine is given by its caller: time, lease, money, and whose run it works for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hab_ray.engine.budget.protocol import BudgetService


@dataclass(frozen=True)
class LeaseContext:
    """The store's lease: `epoch` is its number, `today` wall time in UTC.

    `guard` raises LeaseStale while nothing may be spent, LeaseLost or Interrupted when spending must end.
    """

    today: Callable[[], datetime]
    guard: Callable[[], None]
    epoch: int


@dataclass(frozen=True)
class EngineContext:
    """The surroundings of an engine.

    `clock` is monotonic seconds; `token` returns a word that no other batch has; from `deadline` on, open batches are
    cancelled and nothing more is sent. `epochs` are those of this run, the present one included: batches of others are
    collected, not paid for. `keeps_refusals` holds what earlier processes were refused against their models, so that
    a run that leaves before a batch ends does not make the same one at every start.
    """

    clock: Callable[[], float]
    lease: LeaseContext
    budget: BudgetService
    token: Callable[[], str]
    run: str
    epochs: frozenset[int]
    deadline: datetime | None
    keeps_refusals: bool = False

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and self.lease.today() >= self.deadline
