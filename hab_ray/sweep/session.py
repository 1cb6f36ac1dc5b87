"""Sessions: every call to a model is made inside one, which holds the store's lease for a run.

with spending(work, stop, say) as session:      take the store's lease; release it even if the process is killed
    session = session.adopt_id()                use the id of the run in the folder
    session.register_run()                      book this process's spending to that run
    await session.ask(task)                     send calls; handle signals, book lost costs
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Protocol, TypeVar

from hab_ray.config.sections import LeaseTimes, SpendingLimit
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.errors import ConfigError
from hab_ray.executors.api_versions import with_api_versions
from hab_ray.executors.budget import RunBudget
from hab_ray.location import Location
from hab_ray.resolve import refuse_other_store
from hab_ray.stopping import DRAIN_S, LATE_S, Stop
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.format import adopt
from hab_ray.storage.lease.lease import UNCLEAN_WAIT_S, Holder, Lease
from hab_ray.storage.lease.takeover import LeaseTerms, acquire_lease
from hab_ray.storage.record import run_id_in
from hab_ray.storage.registry import Registry, new_run_id
from hab_ray.storage.replies.sidecars import complete_sidecars
from hab_ray.storage.spending import keep_lost
from hab_ray.work import Work

Say = Callable[[str], None]


class _WithLoss(Protocol):
    """Result of a task. `lost_nanousd` is the possible cost of calls that returned no answer."""

    @property
    def lost_nanousd(self) -> int: ...


T = TypeVar("T", bound=_WithLoss, covariant=True)


class CallTask(Protocol[T]):
    """A task that sends calls to models."""

    async def run(self) -> T:
        """Send all calls."""

    async def stop(self, drain_s: float) -> None:
        """Send no new requests, and store the replies that arrive within `drain_s`."""


@dataclass(frozen=True)
class Session:
    """The store of a work's sweep, held under `lease` for its run. The user ends the session through `stop`."""

    work: Work
    lease: Lease
    stop: Stop

    @property
    def store(self) -> Folder:
        """The folder of the held store."""
        return open_folder(self.work.sweep.store)

    @property
    def registry(self) -> Registry:
        """The runs of the store."""
        return Registry(self.work.sweep.store)

    @cached_property
    def earlier(self) -> frozenset[int]:
        """Epochs in which earlier processes of the run held the store."""
        return self.registry.epochs(self.work.run_id, self.work.run_path) - {self.lease.epoch}

    @property
    def released_up_to(self) -> int:
        """Epoch up to which the user has released stranded money."""
        return self.registry.released_up_to(self.work.run_id)

    def adopt_id(self) -> Session:
        """Return the session with the run folder's present id: another process may have started the run meanwhile.

        Raises:
            ConfigError: the folder is a copy of another run's folder, or the run belongs to another store.
        """
        work = replace(self.work, run_id=run_id_in(self.work.run_path) or self.work.run_id)
        refuse_other_store(work)
        self.registry.refuse_copy(work.run_id, work.run_path)
        return replace(self, work=work)

    def fork_run(self) -> Session:
        """Return the session with a new run id, for a folder that is a copy of another run's folder.

        Raises:
            ConfigError: the folder is not a copy; a new id would only make the store forget what the run has spent.
        """
        path, id = self.work.run_path, run_id_in(self.work.run_path) or self.work.run_id
        if self.registry.other_folder(id, path) is None:
            raise ConfigError(
                f"--new-id: {path} is not a copy of another run that still exists; omit --new-id, and the run keeps "
                "what it has spent"
            )
        return replace(self, work=replace(self.work, run_id=new_run_id()))

    def register_run(self) -> None:
        """Book this process's spending to the run. Write the run's record first if it has one, as it holds the id.

        Also write sidecars that an older version or an interrupted compaction left out.
        """
        adopt(self.store, f"store {self.work.sweep.store}")
        complete_sidecars(self.store)
        self.registry.enter(self.work.run_id, self.work.run_path, datetime.now(UTC))

    def with_api_versions(self) -> Session:
        """Return the session with each endpoint set to an API version that accepts the run's requests."""
        return replace(self, work=asyncio.run(with_api_versions(self.work, self.store)))

    def run_budget(self, limit: SpendingLimit | None) -> RunBudget:
        """Return the run's budget with its books not yet open."""
        return RunBudget(limit, self.work.sweep.store.absolute(), self.lease)

    def budget(self, limit: SpendingLimit | None) -> BudgetService:
        """Return the budget for online calls. Money of open batches stays reserved: a session collects no batch."""
        budget = self.run_budget(limit)
        budget.open_books(self.earlier, self.released_up_to, models=())
        return budget

    async def ask(self, task: CallTask[T]) -> T:
        """Run a task. After a signal it sends nothing more, and calls in flight have `DRAIN_S` to be answered."""
        loop, signalled = asyncio.get_running_loop(), asyncio.Event()

        async def end_when_signalled() -> None:
            await signalled.wait()
            await task.stop(DRAIN_S)

        def on_stop() -> None:
            loop.call_soon_threadsafe(signalled.set)

        with self.stop.deferred(on_stop, DRAIN_S + LATE_S):
            ending = asyncio.create_task(end_when_signalled())
            with suppress(TimeoutError):
                await asyncio.wait_for(signalled.wait(), 0.0 if self.lease.clean else UNCLEAN_WAIT_S)
            result = await task.run()
            ending.cancel()
        if result.lost_nanousd:
            keep_lost(self.store, self.lease.epoch, result.lost_nanousd)
        return result


@contextmanager
def spending(work: Work, stop: Stop, say: Say = lambda text: None) -> Iterator[Session]:
    """Hold the store of a work's sweep for its run; call `say` with the reason if that takes time.

    Raises:
        StoreHeld: another process holds the store.
        Interrupted: the user ended the wait.
    """
    terms = LeaseTerms(work.sweep.lease, work.sweep.shared_filesystem, say, stop.check)
    with holding(work.sweep.store, work.run_path, terms, stop) as lease:
        yield Session(work, lease, stop)


@contextmanager
def holding(store: Location, run: Location, terms: LeaseTerms, stop: Stop) -> Iterator[Lease]:
    """Hold a store for a run, or for maintenance. The lease is released even if the process is killed.

    Raises:
        StoreHeld: another process holds the store.
        Interrupted: the user ended the wait.
    """
    lease = acquire_lease(store, run, datetime.now(UTC), terms)
    try:
        with stop.last_words(lease.release):
            yield lease
    finally:
        lease.release()


def maintaining(store: Location, last: Holder, run: Location, stop: Stop, say: Say) -> AbstractContextManager[Lease]:
    """Hold a store to remove something, by a lease as its last holder had: the file system may lack locks.

    Raises:
        StoreHeld: another process holds the store.
        Interrupted: the user ended the wait.
    """
    before = last.renewal
    times = LeaseTimes(renew_s=before.renew_s, lost_s=before.lost_s, take_s=before.take_s) if before else LeaseTimes()
    return holding(store, run, LeaseTerms(times, before is not None, say, stop.check), stop)
