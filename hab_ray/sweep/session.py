"""The one way to spend: a store that is held for a run, by everybody who has models asked.

with spending(work, stop, say) as session:      the lease of the store; given back also where the process is ended
    session = session.adopt_id()                the run that the folder has
    session.register_run()                      what is spent from now on is that run's
    await session.ask(asking, budget)           signals heard, lost calls noted
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Protocol, TypeVar

from hab_ray.config.sections import SpendingLimit
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.errors import ConfigError
from hab_ray.executors.api_versions import with_api_versions
from hab_ray.location import Location
from hab_ray.resolve import refuse_other_store
from hab_ray.stopping import DRAIN_S, LATE_S, Stop
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.format import adopt
from hab_ray.storage.lease.lease import UNCLEAN_WAIT_S, Lease
from hab_ray.storage.lease.takeover import LeaseTerms, acquire_lease
from hab_ray.storage.record import run_id_in
from hab_ray.storage.registry import Registry, new_run_id
from hab_ray.storage.replies.sidecars import complete_sidecars
from hab_ray.storage.spending import keep_lost
from hab_ray.sweep.budget import RunBudget
from hab_ray.work import Work

Say = Callable[[str], None]


class _Lossy(Protocol):
    """What came of asking. `lost_nanousd` is what calls may have cost that brought no answer."""

    @property
    def lost_nanousd(self) -> int: ...


T = TypeVar("T", bound=_Lossy, covariant=True)


class Asking(Protocol[T]):
    """Somebody who has models asked."""

    async def run(self) -> T:
        """Ask everything."""

    async def stop(self, drain_s: float) -> None:
        """Begin no further request; those in flight have so many seconds to be answered and kept."""


@dataclass(frozen=True)
class Session:
    """The store of a work's sweep, held under `lease` for its run. The user ends it by `stop`."""

    work: Work
    lease: Lease
    stop: Stop

    @property
    def store(self) -> Folder:
        """The store that is held."""
        return open_folder(self.work.sweep.store)

    @property
    def registry(self) -> Registry:
        """The runs of the store."""
        return Registry(self.work.sweep.store)

    @cached_property
    def earlier(self) -> frozenset[int]:
        """The epochs in which earlier processes of the run held the store."""
        return self.registry.epochs(self.work.run_id, self.work.run_path) - {self.lease.epoch}

    @property
    def released_up_to(self) -> int:
        """The epoch up to which what unclean ends had stranded counts as spent no longer."""
        return self.registry.released_up_to(self.work.run_id)

    def adopt_id(self) -> Session:
        """The same session under the id that the folder has now: another process may have started the run meanwhile.

        Raises:
            ConfigError: the folder is a copy of another run's, or the run belongs to another store.
        """
        work = replace(self.work, run_id=run_id_in(self.work.run_path) or self.work.run_id)
        refuse_other_store(work)
        self.registry.refuse_copy(work.run_id, work.run_path)
        return replace(self, work=work)

    def fork_run(self) -> Session:
        """The same session as a run of its own, for a folder that is a copy of another run's.

        Raises:
            ConfigError: it is none; a new id would only make the store forget what the run has spent.
        """
        path, id = self.work.run_path, run_id_in(self.work.run_path) or self.work.run_id
        if self.registry.other_folder(id, path) is None:
            raise ConfigError(
                f"--new-id: {path} is not a copy of another run that is still there; leave --new-id out, and what the "
                "run has spent stays with it"
            )
        return replace(self, work=replace(self.work, run_id=new_run_id()))

    def register_run(self) -> None:
        """Have the store keep this process's spending under the run's id, which is in its record by now, if it has one.

        Sidecars are made that an older version or a cut-off compaction left out.
        """
        adopt(self.store, f"store {self.work.sweep.store}")
        complete_sidecars(self.store)
        self.registry.enter(self.work.run_id, self.work.run_path, datetime.now(UTC))

    def with_api_versions(self) -> Session:
        """The same session with every endpoint under the API version that takes its requests."""
        return replace(self, work=asyncio.run(with_api_versions(self.work, self.store)))

    def run_budget(self, limit: SpendingLimit | None) -> RunBudget:
        """The run's budget, its books still closed."""
        return RunBudget(limit, self.store, self.work.sweep.store.absolute(), self.lease)

    def budget(self, limit: SpendingLimit | None) -> BudgetService:
        """What online calls draw from. What is set aside for batches, which nobody collects here, is out of reach."""
        budget = self.run_budget(limit)
        budget.open_books(self.earlier, self.released_up_to, models=())
        return budget.client()

    async def ask(self, asking: Asking[T]) -> T:
        """Have somebody ask. On the first signal nothing more is sent, and open calls get `DRAIN_S` to be answered."""
        loop, signalled = asyncio.get_running_loop(), asyncio.Event()

        async def end_when_signalled() -> None:
            await signalled.wait()
            await asking.stop(DRAIN_S)

        def on_stop() -> None:
            loop.call_soon_threadsafe(signalled.set)

        with self.stop.deferred(on_stop, DRAIN_S + LATE_S):
            ending = asyncio.create_task(end_when_signalled())
            with suppress(TimeoutError):
                await asyncio.wait_for(signalled.wait(), 0.0 if self.lease.clean else UNCLEAN_WAIT_S)
            found = await asking.run()
            ending.cancel()
        if found.lost_nanousd:
            keep_lost(self.store, self.lease.epoch, found.lost_nanousd)
        return found


@contextmanager
def spending(work: Work, stop: Stop, say: Say = lambda text: None) -> Iterator[Session]:
    """Hold the store of a work's sweep for its run; `say` is told why that takes time.

    Raises:
        StoreHeld: another process holds it.
        Interrupted: the user ended the wait for it.
    """
    terms = LeaseTerms(work.sweep.lease, work.sweep.shared_filesystem, say, stop.check)
    with holding(work.sweep.store, work.run_path, terms, stop) as lease:
        yield Session(work, lease, stop)


@contextmanager
def holding(store: Location, run: Location, terms: LeaseTerms, stop: Stop) -> Iterator[Lease]:
    """Hold a store for a run, or for itself; given back also where the process is ended.

    Raises:
        StoreHeld: another process holds it.
        Interrupted: the user ended the wait for it.
    """
    lease = acquire_lease(store, run, datetime.now(UTC), terms)
    try:
        with stop.last_words(lease.release):
            yield lease
    finally:
        lease.release()
