"""A run's budget while it is driven: kept in this process until workers elsewhere need it too."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hab_ray.engine.budget.budget import Budget, LocalBudget, OpeningBalance, unlimited
from hab_ray.engine.budget.marks import open_budget
from hab_ray.engine.budget.protocol import BudgetGrant, BudgetRequest, BudgetService
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.watches import RemoteWatch, Watch


@dataclass(frozen=True)
class BudgetSetup:
    """What a run's budget starts from: its limit in nano-dollars, and what earlier processes have left.

    `watch` is that of a keeper in another process.
    """

    limit: int
    opening: OpeningBalance
    store: Location
    epoch: int
    watch: RemoteWatch

    def open(self, watch: Watch) -> Budget:
        """The budget, with the mark that an earlier keeper of this epoch has left in the store."""
        return open_budget(self.limit, self.opening, open_folder(self.store), self.epoch, watch, time.monotonic)


class MovableBudget:
    """One budget for all executors of a run; where `setup` gives none, everything is granted.

    `setup` is asked at the first need, when what earlier processes have spent is known. `watch` is this process's.

    It may move once, while engines draw from it: the next keeper starts from the durable mark, as one does that is
    started again after a crash, and learns the rest from the engines' reports.
    """

    def __init__(self, setup: Callable[[], BudgetSetup | None], watch: Watch) -> None:
        self._setup, self._watch = setup, watch
        self._keeper: BudgetService | None = None
        self._is_here = True
        self._lock = threading.Lock()

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        with self._lock:
            keeper = self._keeper = self._keeper or self._local()
            if self._is_here:
                return await keeper.grant(request)  # never waits: the budget is in this process
        return await keeper.grant(request)

    def _local(self) -> BudgetService:
        setup = self._setup()
        return LocalBudget(setup.open(self._watch)) if setup else unlimited()

    def move(self, keeper: Callable[[BudgetSetup], BudgetService]) -> None:
        """Have it kept elsewhere from now on. Where there is no limit, nothing needs a keeper."""
        setup = self._setup()
        if setup is None or not self._is_here:
            return
        with self._lock:  # no draw is answered here once the next keeper may have read the mark
            self._is_here = False
            self._keeper = keeper(setup)
