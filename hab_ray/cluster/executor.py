"""The online executor on Ray: a pool of lanes per provider, actors for limits and budget, and tasks that settle.

The first dispatch starts Ray, so a run that sends nothing online needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hab_ray.cluster.nodes import alive_nodes, require_folders, require_keys
from hab_ray.cluster.session import as_our_error, check_servers, ray_session
from hab_ray.engine.budget.marks import BudgetSetup
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.executors.online import RunSetup, account_setup
from hab_ray.executors.protocol import (
    Channel,
    Compute,
    Dispatch,
    Event,
    ExecutorDied,
    Settle,
    Workers,
)

if TYPE_CHECKING:
    from hab_ray.cluster.pools import Listener, Placement, Pool
    from hab_ray.cluster.tasks import Tasks
    from hab_ray.executors.pending import Share


@dataclass
class _Session:
    """The state of a started Ray."""

    tasks: Tasks
    placement: Placement
    pools: dict[str, Pool] = field(default_factory=dict)
    budget: Any = None
    listener: Listener | None = None
    is_ending: bool = False


class RayExecutor:
    """The online executor of a run on Ray, and its workers once Ray is started."""

    def __init__(self, setup: RunSetup, wake: Callable[[], None]) -> None:
        self._setup, self._wake = setup, wake
        self._stack = ExitStack()
        self._session: _Session | None = None

    @property
    def workers(self) -> Workers | None:
        """This executor, once Ray is started."""
        return self if self._session else None

    def start(self, dispatch: Dispatch) -> Channel:
        with _ray_errors_explained():
            session = self._started()
            pool, pending = self._pool(session, dispatch.provider), self._setup.site.pending

            def begin(lane: Any, share: Share) -> Any:
                from hab_ray.cluster.lanes import open_calls

                if dispatch.is_flowing:
                    return lane.complete_flowing.remote(pending, dispatch.spools, share)
                return lane.complete.remote(open_calls(pending, dispatch.spools, share), dispatch.feeds)

            pool.complete(dispatch.order, begin)
            return pool.channel

    def settle(self, order: Settle) -> None:
        with _ray_errors_explained():
            self._started().tasks.settle(order)

    def compute(self, order: Compute) -> None:
        with _ray_errors_explained():
            self._started().tasks.compute(order)

    @property
    def is_parked(self) -> bool:
        return self._session is None or not any(pool.is_busy for pool in self._session.pools.values())

    def poll(self) -> Sequence[Event]:
        session = self._session
        if session is None:
            return ()
        events: list[Event] = []
        if session.is_ending:
            with suppress(Exception):
                self._tell_budget(session)
                for pool in session.pools.values():
                    events.extend(pool.last_events())
            return events
        try:
            check_servers()
            events.extend(self._events(session))
        except Exception as error:  # after any error, Ray cannot be trusted
            events.append(ExecutorDied(as_our_error(error)))
        return events

    def _events(self, session: _Session) -> Iterator[Event]:
        self._tell_budget(session)
        for pool in session.pools.values():
            yield from pool.poll()
        yield from session.tasks.poll()

    def _tell_budget(self, session: _Session) -> None:
        """Report the lease's age to the budget's actor; otherwise engines could not return what they hold."""
        if session.listener:
            session.listener.tell()

    def stop(self, drain_s: float) -> None:
        if self._session:
            for pool in list(self._session.pools.values()):
                pool.stop(drain_s)

    def end(self) -> Collection[Channel]:
        if self._session is None:
            return ()
        self._session.is_ending = True
        with _ray_errors_explained():
            return [pool.channel for pool in self._session.pools.values() if pool.end()]

    def close(self) -> None:
        """Disconnect from Ray, and end it if this run started it."""
        self._session = None
        self._stack.close()

    def _started(self) -> _Session:
        if self._session is None:
            needed = self._setup.needed()
            with self._setup.stop.immediate():
                self._stack.enter_context(ray_session(self._setup.verbose))
                _check_nodes(self._setup, needed)
            from hab_ray.cluster.pools import Placement
            from hab_ray.cluster.tasks import Tasks

            session = _Session(Tasks(self._setup.site, self._wake), Placement(self._setup.site.work.sweep.lease.lost_s))
            self._setup.budget.move(lambda setup: self._shared_budget(session, setup))
            for provider in needed:
                self._pool(session, provider)
            self._session = session
        return self._session

    def _shared_budget(self, session: _Session, setup: BudgetSetup) -> BudgetService:
        from hab_ray.cluster.limits import SharedBudget, budget_actor
        from hab_ray.cluster.pools import Listener

        session.budget = budget_actor(setup)
        session.listener = Listener(session.budget, lambda: self._setup.lease.age_s)
        return SharedBudget(session.budget)

    def _pool(self, session: _Session, provider: str) -> Pool:
        if provider not in session.pools:
            from hab_ray.cluster.lanes import LaneSetup
            from hab_ray.cluster.pools import Pool

            run, placement, site = self._setup, session.placement, session.tasks.site
            account = account_setup(run, provider)
            session.pools[provider] = Pool(
                LaneSetup(account, run.lease.elsewhere, run.wait_s, session.budget),
                placement.lanes_for(account),
                start=lambda setup: placement.start_lane(setup, site),
                lease_age_s=lambda: run.lease.age_s,
                pause_s=placement.pause_s,
            )
        return session.pools[provider]


def _check_nodes(setup: RunSetup, providers: Sequence[str]) -> None:
    """Refuse, before anything is sent, nodes that cannot access the run's folders or lack its providers' keys."""
    site, nodes = setup.site, alive_nodes()
    require_folders(nodes, {"run": site.work.run_path, "store": site.store}, site.work.sweep.shared_filesystem)
    if len(nodes) > 1:
        require_keys(nodes, [site.work.catalog.providers[name] for name in providers])


@contextmanager
def _ray_errors_explained() -> Iterator[None]:
    """Turn errors of Ray into errors that say what broke and what to do."""
    try:
        yield
    except Exception as error:
        ours = as_our_error(error)
        if ours is error:
            raise
        raise ours from error
