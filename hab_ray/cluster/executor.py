"""Completes calls online on Ray: a lane for each provider, limits and budget in actors, settling in tasks.

Ray is started by the first dispatch and not before: a run with nothing to send online needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hab_ray.cluster.nodes import NodeCheck
from hab_ray.cluster.session import WorkerDied, finished, must_be_alive, named, ray_session, result
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.executors.budget import BudgetSetup
from hab_ray.executors.online import OnlineSetup
from hab_ray.executors.protocol import (
    CallsSpooled,
    Channel,
    ChannelDied,
    ChannelEnded,
    Compute,
    CountersRead,
    Dispatch,
    DispatchEnded,
    Event,
    ExecutorDied,
    Settle,
    Spool,
    SpoolsRead,
    Workers,
)
from hab_ray.executors.settling import Site

if TYPE_CHECKING:
    from hab_ray.cluster.lanes import Lanes, LaneSetup, LaneSnapshot
    from hab_ray.cluster.tasks import Tasks

DRAINING_ANSWER_S = 1.0


@dataclass
class _Session:
    """What exists once Ray is started."""

    lanes: Lanes
    tasks: Tasks
    budget: Any = None
    dispatches: dict[Any, tuple[Dispatch, Channel]] = field(default_factory=dict)
    ending: dict[Channel, Any] | None = None


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
            from hab_ray.cluster.pipelines import open_calls

            lane, channel = session.lanes.get(
                dispatch.provider, lambda: _lane_setup(self._setup, session, dispatch.provider)
            )
            pending = self._setup.site.pending
            if dispatch.is_flowing:
                ref = lane.complete_flowing.remote(pending, dispatch.spools)
            else:
                ref = lane.complete.remote(open_calls(pending, dispatch.spools), session.tasks.site, dispatch.feeds)
            session.dispatches[ref] = (dispatch, channel)
            return channel

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
        return self._session is None or not self._session.dispatches

    def poll(self) -> Sequence[Event]:
        """See Service."""
        session = self._session
        if session is None:
            return ()
        events: list[Event] = []
        if session.ending is not None:
            with suppress(Exception):
                for event in self._last_events(session, session.ending):
                    events.append(event)
            return events
        try:
            must_be_alive()
            for event in self._events(session):
                events.append(event)
        except Exception as error:  # whatever it is: nothing of Ray can be trusted any more
            events.append(ExecutorDied(named(error)))
        return events

    def _events(self, session: _Session) -> Iterator[Event]:
        ended = finished(list(session.dispatches))
        died: dict[Channel, Exception] = {}
        for channel, snapshot in session.lanes.snapshots().items():
            if isinstance(snapshot, WorkerDied):
                died[channel] = snapshot
            else:
                yield from _events_of(channel, snapshot)
        yield from session.tasks.poll()
        for ref in ended:
            dispatch, channel = session.dispatches.pop(ref)
            try:
                result(ref, f"the worker that calls {channel.provider}")
            except WorkerDied as error:
                died[channel] = error
                continue
            yield SpoolsRead(dispatch.order)
            yield DispatchEnded(dispatch.order)
        for channel, death in died.items():
            must_be_alive()
            session.lanes.forget(channel)
            _forget(session.dispatches, channel)
            yield ChannelDied(channel, death)

    def _last_events(self, session: _Session, ending: dict[Channel, Any]) -> Iterator[Event]:
        """What the lanes say while they end. One that died or hangs says nothing more, and is left behind."""
        done = finished(list(ending.values()))
        for channel in [channel for channel, ref in ending.items() if ref in done]:
            try:
                snapshot = result(ending.pop(channel), channel.provider, DRAINING_ANSWER_S)
            except Exception as error:
                yield ChannelDied(channel, error)
                continue
            yield from _events_of(channel, snapshot)
            yield ChannelEnded(channel)
        if ending:
            for channel, snapshot in session.lanes.snapshots(DRAINING_ANSWER_S).items():
                if channel in ending and not isinstance(snapshot, WorkerDied):
                    yield from _events_of(channel, snapshot)

    def stop(self, drain_s: float) -> None:
        """See Service."""
        if self._session:
            self._session.lanes.stop(drain_s)

    def end(self) -> Collection[Channel]:
        """See Service."""
        if self._session is None:
            return ()
        with _errors_are_ours():
            self._session.ending = dict(self._session.lanes.end())
        return list(self._session.ending)

    def close(self) -> None:
        """See Service. Ends a Ray of this run's own."""
        self._session = None
        self._stack.close()

    def _started(self) -> _Session:
        if self._session is None:
            with self._setup.stop.immediate():
                self._stack.enter_context(ray_session(self._setup.verbose))
                _nodes_of(self._setup.site).check()
            from hab_ray.cluster.lanes import Lanes
            from hab_ray.cluster.tasks import Tasks

            session = _Session(Lanes(), Tasks(self._setup.site, self._wake))
            self._setup.budget.move(lambda setup: _shared_budget(session, setup))
            for provider in self._setup.needed():
                session.lanes.start(provider, _lane_setup(self._setup, session, provider))
            self._session = session
        return self._session


def _nodes_of(site: Site) -> NodeCheck:
    places = {"run": site.work.run_path, "store": site.store}
    return NodeCheck(places, site.work.sweep.shared_filesystem)


def _lane_setup(setup: OnlineSetup, session: _Session, provider: str) -> LaneSetup:
    from hab_ray.cluster.lanes import LaneSetup

    site = setup.site
    work = site.work
    return LaneSetup(
        provider=provider,
        entry=work.catalog.providers[provider],
        url=setup.url(provider),
        models={m.name: m.entry for m in work.models.values() if m.entry.provider == provider},
        store=site.store,
        epoch=site.pending.epoch,
        watch=setup.lease.elsewhere,
        failures_since=site.failures_since,
        not_before=setup.not_before,
        budget=session.budget,
    )


def _events_of(channel: Channel, snapshot: LaneSnapshot) -> Iterator[Event]:
    """What a lane reports. Calls that followed from rows come before the counters that call those rows finished."""
    if snapshot.spooled:
        yield CallsSpooled(snapshot.spooled)
    yield CountersRead(channel, snapshot.counters)


def _shared_budget(session: _Session, setup: BudgetSetup) -> BudgetService:
    from hab_ray.cluster.limits import SharedBudget, budget_actor

    session.budget = budget_actor(setup)
    return SharedBudget(session.budget)


def _forget(dispatches: dict[Any, tuple[Dispatch, Channel]], channel: Channel) -> None:
    for ref in [ref for ref, (_, of) in dispatches.items() if of == channel]:
        del dispatches[ref]


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
