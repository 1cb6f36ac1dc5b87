"""The budget of a running process: kept in this process until workers in other processes need it too."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hab_ray.engine.budget.budget import LocalBudget, unlimited
from hab_ray.engine.budget.marks import BudgetSetup
from hab_ray.engine.budget.protocol import BudgetGrant, BudgetRequest, BudgetService
from hab_ray.storage.lease.watches import Watch


class MovableBudget:
    """The budget shared by all executors of a run. If `setup` returns None, everything is granted.

    `setup` is called at first use, when the spending of earlier processes is known. `watch` is for this process.

    The budget may move once while engines draw from it. The new keeper starts from the durable mark, as it would after
    a crash, and learns the rest from the engines' reports.
    """

    def __init__(self, setup: Callable[[], BudgetSetup | None], watch: Watch) -> None:
        self._setup, self._watch = setup, watch
        self._keeper: BudgetService | None = None
        self._is_local = True
        self._lock = threading.Lock()

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        with self._lock:
            keeper = self._keeper = self._keeper or self._local()
            if self._is_local:
                return await keeper.grant(request)  # does not block: the budget is in this process
        return await keeper.grant(request)

    def _local(self) -> BudgetService:
        setup = self._setup()
        return LocalBudget(setup.open(self._watch)) if setup else unlimited()

    def move(self, keeper: Callable[[BudgetSetup], BudgetService]) -> None:
        """Move the budget to another keeper, unless it is unlimited or has moved before."""
        setup = self._setup()
        if setup is None or not self._is_local:
            return
        with self._lock:  # grant nothing here once the next keeper may have read the mark
            self._is_local = False
            self._keeper = keeper(setup)
