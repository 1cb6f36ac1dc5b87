"""The budget of a run: what earlier processes and this one have spent, what may still be spent, and lost costs."""

import threading
import time
from collections.abc import Callable, Collection, Iterable

from hab_ray.catalog.prices import NANO
from hab_ray.config.sections import SpendingLimit
from hab_ray.engine.books import opening_balance
from hab_ray.engine.budget.budget import LocalBudget, OpeningBalance, unlimited
from hab_ray.engine.budget.marks import BudgetSetup
from hab_ray.engine.budget.protocol import BudgetGrant, BudgetRequest, BudgetService
from hab_ray.engine.jobs import Counters, smallest_wait
from hab_ray.location import Location
from hab_ray.progress import BudgetStatus
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import WATCH_EVERY_S, Lease
from hab_ray.storage.spending import keep_lost


class RunBudget:
    """The budget that all executors of a run draw from, in nano-dollars. Without a limit it grants everything.

    It is kept in this process until workers in other processes need it too. It may move once, while engines draw from
    it. The new keeper starts from the durable mark, as it would after a crash, and learns the rest from the engines'
    reports. `store` is absolute.
    """

    def __init__(self, limit: SpendingLimit | None, store: Location, lease: Lease) -> None:
        self._limit = None if limit is None else round(limit.usd * NANO)
        self._assumption = (limit and limit.assumption) or ""
        self._store, self._folder = store, open_folder(store)
        self._lease, self._watch = lease, lease.watch()
        self._opening: OpeningBalance | None = None
        self._kept_lost = 0
        self._keeper: BudgetService | None = None
        self._is_local = True
        self._lock = threading.Lock()

    def open_books(self, earlier: Collection[int], released_up_to: int, models: Collection[str]) -> int:
        """Read what the run spent in its earlier epochs, and return the part of a budget that is stranded.

        Call it before any engine draws money. After an unclean end, it waits until that process's budget can no longer
        grant money.
        """
        if self._limit is not None and not self._lease.clean:
            time.sleep(2 * WATCH_EVERY_S)
        self._opening = opening_balance(self._folder, earlier, released_up_to, models)
        return 0 if self._limit is None else self._opening.stranded

    @property
    def paid_before(self) -> int | None:
        """What replies to the run's earlier processes cost; None before the books are open."""
        return None if self._opening is None else self._opening.paid

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        with self._lock:
            keeper = self._keeper = self._keeper or self._local()
            if self._is_local:
                return await keeper.grant(request)  # does not block: the budget is in this process
        return await keeper.grant(request)

    def _local(self) -> BudgetService:
        return unlimited() if self._limit is None else LocalBudget(self._setup(self._limit).open(self._watch))

    def _setup(self, limit: int) -> BudgetSetup:
        opening = self._opening or OpeningBalance()
        return BudgetSetup(limit, opening, self._store, self._lease.epoch, self._lease.elsewhere)

    def move(self, keeper: Callable[[BudgetSetup], BudgetService]) -> None:
        """Move the budget to another keeper, unless it is unlimited or has moved before."""
        if self._limit is None or not self._is_local:
            return
        with self._lock:  # grant nothing here once the next keeper may have read the mark
            self._is_local = False
            self._keeper = keeper(self._setup(self._limit))

    def keep_lost(self, online: Iterable[Counters]) -> None:
        """Store the possible cost of online calls that returned no answer."""
        lost = sum(counted.lost_nanousd for counted in online)
        if lost != self._kept_lost:
            keep_lost(self._folder, self._lease.epoch, lost)
            self._kept_lost = lost

    def write_off(self, online: Iterable[Counters]) -> None:
        """Count online calls in flight as spent, before the process is killed."""
        lost = sum(counted.lost_nanousd + counted.reserved_nanousd for counted in online)
        if lost:
            keep_lost(self._folder, self._lease.epoch, lost)

    def status(self, newest: Collection[Counters]) -> BudgetStatus | None:
        """Return what is spent and reserved; None without a limit, or before the books are open."""
        if self._limit is None or self._opening is None:
            return None
        return BudgetStatus(
            spent=self._opening.spent + sum(counted.spent_nanousd for counted in newest),
            reserved=self._opening.out_of_reach + sum(counted.reserved_nanousd for counted in newest),
            budget=self._limit,
            stranded=self._opening.stranded,
            waits_for=smallest_wait(newest),
            assumption=self._assumption,
        )
