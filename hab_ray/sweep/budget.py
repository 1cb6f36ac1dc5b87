"""A run's budget as the driver sees it: what earlier processes have spent, what this one has, and what is lost."""

from __future__ import annotations

import time
from collections.abc import Collection

from hab_ray.catalog.prices import NANO
from hab_ray.config.sections import SpendingLimit
from hab_ray.engine.books import opening_balance
from hab_ray.engine.budget.budget import OpeningBalance
from hab_ray.engine.jobs import smallest_wait
from hab_ray.executors.budget import BudgetSetup, MovableBudget
from hab_ray.location import Location
from hab_ray.progress import BudgetStatus
from hab_ray.storage.folder import Folder
from hab_ray.storage.lease.lease import WATCH_EVERY_S, Lease
from hab_ray.storage.spending import keep_lost
from hab_ray.sweep.telling.counters import RunCounters


class RunBudget:
    """The budget of one run, in nano-dollars; without a limit nothing is counted. `folder` at `path` is its store."""

    def __init__(self, limit: SpendingLimit | None, folder: Folder, path: Location, lease: Lease) -> None:
        self._limit = None if limit is None else round(limit.usd * NANO)
        self._assumption = (limit and limit.assumption) or ""
        self._folder, self._path, self._lease = folder, path, lease
        self._opened: OpeningBalance | None = None
        self._kept_lost = 0

    @property
    def _before(self) -> OpeningBalance:
        return self._opened or OpeningBalance()

    def open_books(self, earlier: Collection[int], released_up_to: int, models: Collection[str]) -> int:
        """Learn what the run has spent in these earlier epochs, and return what of it an unclean end has stranded.

        After an unclean end this waits until that process's budget grants no more.
        """
        if self._limit is None:
            return 0
        if not self._lease.clean:
            time.sleep(2 * WATCH_EVERY_S)
        self._opened = opening_balance(self._folder, earlier, released_up_to, models)
        return self._before.stranded

    def client(self) -> MovableBudget:
        """What the executors of this process draw from; the books must be open when the first does."""
        return MovableBudget(self._setup, self._lease.watch())

    def _setup(self) -> BudgetSetup | None:
        if self._limit is None:
            return None
        return BudgetSetup(self._limit, self._before, self._path, self._lease.epoch, self._lease.elsewhere)

    def keep_lost(self, counters: RunCounters) -> None:
        """Make durable what online calls may have cost that brought no answer."""
        lost = sum(counted.lost_nanousd for counted in counters.online())
        if lost != self._kept_lost:
            self._kept_lost = lost
            keep_lost(self._folder, self._lease.epoch, lost)

    def write_off(self, counters: RunCounters) -> None:
        """Before the process is ended by force: what is in flight online counts as spent."""
        lost = sum(counted.lost_nanousd + counted.reserved_nanousd for counted in counters.online())
        if lost:
            keep_lost(self._folder, self._lease.epoch, lost)

    def money(self, counters: RunCounters) -> BudgetStatus | None:
        """What is spent and set aside by now; None without a limit, and while the books are closed."""
        if self._limit is None or self._opened is None:
            return None
        newest = counters.newest.values()
        return BudgetStatus(
            spent=self._before.spent + sum(counted.spent_nanousd for counted in newest),
            reserved=self._before.out_of_reach + sum(counted.reserved_nanousd for counted in newest),
            budget=self._limit,
            stranded=self._before.stranded,
            waits_for=smallest_wait(newest),
            assumption=self._assumption,
        )
