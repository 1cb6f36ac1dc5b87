"""A run's budget as the driver sees it: what earlier processes and this one have spent, and lost costs."""

from __future__ import annotations

import time
from collections.abc import Collection

from hab_ray.catalog.prices import NANO
from hab_ray.config.sections import SpendingLimit
from hab_ray.engine.books import opening_balance
from hab_ray.engine.budget.budget import OpeningBalance
from hab_ray.engine.budget.marks import BudgetSetup
from hab_ray.engine.jobs import smallest_wait
from hab_ray.executors.budget import MovableBudget
from hab_ray.location import Location
from hab_ray.progress import BudgetStatus
from hab_ray.storage.folder import Folder
from hab_ray.storage.lease.lease import WATCH_EVERY_S, Lease
from hab_ray.storage.spending import keep_lost
from hab_ray.sweep.monitoring.counters import RunCounters


class RunBudget:
    """The budget of one run, in nano-dollars. Without a limit it counts nothing. `folder` at `path` is the store."""

    def __init__(self, limit: SpendingLimit | None, folder: Folder, path: Location, lease: Lease) -> None:
        self._limit = None if limit is None else round(limit.usd * NANO)
        self._assumption = (limit and limit.assumption) or ""
        self._folder, self._path, self._lease = folder, path, lease
        self._opening: OpeningBalance | None = None
        self._kept_lost = 0

    def open_books(self, earlier: Collection[int], released_up_to: int, models: Collection[str]) -> int:
        """Read what the run spent in its earlier epochs, and return the part that an unclean end has stranded.

        After an unclean end, wait until that process's budget can no longer grant money.
        """
        if self._limit is None:
            return 0
        if not self._lease.clean:
            time.sleep(2 * WATCH_EVERY_S)
        self._opening = opening_balance(self._folder, earlier, released_up_to, models)
        return self._opening.stranded

    def client(self) -> MovableBudget:
        """Return the budget that executors of this process draw from. Open the books before the first one does."""
        return MovableBudget(self._setup, self._lease.watch())

    def _setup(self) -> BudgetSetup | None:
        if self._limit is None:
            return None
        opening = self._opening or OpeningBalance()
        return BudgetSetup(self._limit, opening, self._path, self._lease.epoch, self._lease.elsewhere)

    def keep_lost(self, counters: RunCounters) -> None:
        """Store the possible cost of online calls that returned no answer."""
        lost = sum(counted.lost_nanousd for counted in counters.online())
        if lost != self._kept_lost:
            self._kept_lost = lost
            keep_lost(self._folder, self._lease.epoch, lost)

    def write_off(self, counters: RunCounters) -> None:
        """Count online calls in flight as spent, before the process is killed."""
        lost = sum(counted.lost_nanousd + counted.reserved_nanousd for counted in counters.online())
        if lost:
            keep_lost(self._folder, self._lease.epoch, lost)

    def status(self, counters: RunCounters) -> BudgetStatus | None:
        """Return what is spent and reserved; None without a limit, or before the books are open."""
        if self._limit is None or self._opening is None:
            return None
        newest = counters.newest.values()
        return BudgetStatus(
            spent=self._opening.spent + sum(counted.spent_nanousd for counted in newest),
            reserved=self._opening.out_of_reach + sum(counted.reserved_nanousd for counted in newest),
            budget=self._limit,
            stranded=self._opening.stranded,
            waits_for=smallest_wait(newest),
            assumption=self._assumption,
        )
