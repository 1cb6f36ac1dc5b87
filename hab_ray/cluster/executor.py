"""Completes calls online on Ray: a pool of lanes for each provider, limits and budget in actors, settling in tasks.

Ray is started by the first dispatch and not before: a run with nothing to send online needs none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hab_ray.cluster.session import must_be_alive, named, ray_session
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.executors.budget import BudgetSetup
from hab_ray.executors.online import OnlineSetup, account_setup
from hab_ray.executors.protocol import (
    Channel,
    Compute,
    Dispatch,
    Event,
    ExecutorDied,
    Settle,
    Spool,
    Workers,
)

if TYPE_CHECKING:
    from hab_ray.cluster.listeners import Listener
    from hab_ray.cluster.placement import Nodes
    from hab_ray.cluster.pools import Pool
    from hab_ray.cluster.tasks import Tasks
    from hab_ray.executors.pending import Share


@dataclass
class _Session:
    """What exists once Ray is started."""

    tasks: Tasks
    nodes: Nodes
    pools: dict[str, Pool] = field(default_factory=dict)
    budget: Any = None
    listener: Listener | None = None
    is_ending: bool = False


class RayExecutor:
    """The online executor of a run on Ray, and its workers once Ray is started."""

    def __init__(self, setup: OnlineSetup, wake: Callable[[], None]) -> None:
        self._setup, self._wake = setup, wake
        self._stack = ExitStack()
        self._session: _Session | None = None

    @property
    def workers(self) -> Workers | None:
        """See OnlineExecutor. Tasks of Ray, once Ray is started."""
        return self if self._session else None

    def start(self, dispatch: Dispatch) -> Channel:
        """See Executor."""
        with _errors_are_ours():
            session = self._started()
            pool, pending = self._pool(session, dispatch.provider), self._setup.site.pending

            def begin(lane: Any, share: Share) -> Any:
                from hab_ray.cluster.pipelines import open_calls

                if dispatch.is_flowing:
                    return lane.complete_flowing.remote(pending, dispatch.spools, share)
                return lane.complete.remote(open_calls(pending, dispatch.spools, share), dispatch.feeds)

            pool.complete(dispatch.order, begin)
            return pool.channel

    def settle(self, order: Settle) -> None:
        """See Workers."""
        with _errors_are_ours():
            self._started().tasks.settle(order)

    def compute(self, order: Compute) -> None:
        """See Workers."""
        with _errors_are_ours():
            self._started().tasks.compute(order)

    def holds(self, spool: Spool) -> bool:
        """See Executor. Lanes forget what they had in flight; only batches outlive a process."""
        return False

    @property
    def is_parked(self) -> bool:
        """See Executor."""
        return self._session is None or not any(pool.is_busy for pool in self._session.pools.values())

    def poll(self) -> Sequence[Event]:
        """See Service."""
        session = self._session
        if session is None:
            return ()
        events: list[Event] = []
        if session.is_ending:
            with suppress(Exception):
                for pool in session.pools.values():
                    events.extend(pool.last_events())
            return events
        try:
            must_be_alive()
            for event in self._events(session):
                events.append(event)
        except Exception as error:  # whatever it is: nothing of Ray can be trusted any more
            events.append(ExecutorDied(named(error)))
        return events

    def _events(self, session: _Session) -> Iterator[Event]:
        if session.listener:
            session.listener.tell()
        for pool in session.pools.values():
            yield from pool.poll()
        yield from session.tasks.poll()

    def stop(self, drain_s: float) -> None:
        """See Service."""
        if self._session:
            for pool in list(self._session.pools.values()):
                pool.stop(drain_s)

    def end(self) -> Collection[Channel]:
        """See Service."""
        if self._session is None:
            return ()
        self._session.is_ending = True
        with _errors_are_ours():
            return [pool.channel for pool in self._session.pools.values() if pool.end()]

    def close(self) -> None:
        """See Service. Ends a Ray of this run's own."""
        self._session = None
        self._stack.close()

    def _started(self) -> _Session:
        if self._session is None:
            with self._setup.stop.immediate():
                self._stack.enter_context(ray_session(self._setup.verbose))
            from hab_ray.cluster.placement import Nodes
            from hab_ray.cluster.tasks import Tasks

            session = _Session(Tasks(self._setup.site, self._wake), Nodes())
            self._setup.budget.move(lambda setup: self._shared_budget(session, setup))
            for provider in self._setup.needed():
                self._pool(session, provider)
            self._session = session
        return self._session

    def _shared_budget(self, session: _Session, setup: BudgetSetup) -> BudgetService:
        from hab_ray.cluster.limits import SharedBudget, budget_actor
        from hab_ray.cluster.listeners import Listener

        session.budget = budget_actor(setup)
        session.listener = Listener(session.budget, lambda: self._setup.lease.age_s)
        return SharedBudget(session.budget)

    def _pool(self, session: _Session, provider: str) -> Pool:
        """The pool of a provider, whose lanes begin to open if there was none."""
        if provider not in session.pools:
            from hab_ray.cluster.lanes import LaneSetup
            from hab_ray.cluster.pools import Pool, PoolContext

            run = self._setup
            account = account_setup(run, provider)
            setup = LaneSetup(account, run.lease.elsewhere, run.not_before, session.budget)
            site = session.tasks.site
            session.pools[provider] = Pool(
                setup,
                session.nodes.lanes_for(account),
                PoolContext(
                    start=lambda setup: session.nodes.start_lane(setup, site),
                    lease_age_s=lambda: run.lease.age_s,
                    pause_s=session.nodes.pause_s,
                    now=time.time,
                ),
            )
        return session.pools[provider]


@contextmanager
def _errors_are_ours() -> Iterator[None]:
    """Raise an error of Ray as one that says what broke and what to do."""
    try:
        yield
    except Exception as error:
        ours = named(error)
        if ours is error:
            raise
        raise ours from error
