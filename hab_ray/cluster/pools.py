"""Pools of lanes: as many processes per provider account as its limits need, which share its calls by key.

A lane that dies or hangs is replaced. Its calls in flight count as spent. Settling finds its unfinished rows once the
dispatches that it had a share of have ended.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from math import ceil, inf
from typing import Any
from urllib.parse import urlsplit

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hab_ray.catalog.addresses import LOOPBACK
from hab_ray.catalog.prices import Mode
from hab_ray.cluster.lanes import LANE_ACTOR, STREAMS, LaneSetup
from hab_ray.cluster.limits import account
from hab_ray.cluster.nodes import alive_nodes, cluster_cpus
from hab_ray.cluster.session import ANSWER_S, WorkerDied, finished, result
from hab_ray.engine.jobs import Counters
from hab_ray.engine.online.opening import AccountSetup
from hab_ray.errors import EngineBroke
from hab_ray.executors.pending import Share
from hab_ray.executors.protocol import (
    CallsSpooled,
    Channel,
    ChannelEnded,
    CountersRead,
    DispatchEnded,
    Event,
    WorkerReplaced,
)
from hab_ray.executors.provider_engine import EngineReport
from hab_ray.storage.lease.watches import RenewalAge

# One core handles about 600 calls/s (`git show 2f47afb:benchmarks/online_speed.py`); a lane should need less than half.
LANE_CALLS_PER_S = 250.0
LANE_CPUS = 2.0
_TYPICAL_CALL_S = 4.0
DRAINING_ANSWER_S = 1.0


class Placement:
    """The nodes of the cluster at the start of the run, the driver's node last.

    A lane stops sending `lost_s` seconds after the last renewal of the lease that it heard of.
    """

    def __init__(self, lost_s: float) -> None:
        self._lost_s = lost_s
        self._here = str(ray.get_runtime_context().get_node_id())
        self._all = [*sorted(node.id for node in alive_nodes() if node.id != self._here), self._here]
        self._cpus = cluster_cpus()
        self._started = count()

    @property
    def pause_s(self) -> float:
        """Seconds for which a lane on an unreachable node may keep sending; 0 if all lanes are on the driver's node."""
        return self._lost_s if len(self._all) > 1 else 0.0

    def lanes_for(self, setup: AccountSetup) -> int:
        """Return the number of lanes of an account: as configured, or as its limits require and the CPUs allow."""
        if _is_served_here(setup):
            return 1
        if setup.entry.lanes:
            return setup.entry.lanes
        calls_per_s = sum(
            min(limits.concurrent / _TYPICAL_CALL_S, (limits.requests_per_minute or inf) / 60)
            for limits in setup.limits.values()
        )
        needed = ceil(calls_per_s / LANE_CALLS_PER_S)
        return max(1, min(needed, int(self._cpus / LANE_CPUS)))

    def start_lane(self, setup: LaneSetup, site: Any) -> Any:
        """Start a lane on the next node, round-robin; with an endpoint on the driver's node, start it there.

        `site` is a reference to the run's WorkerContext.
        """
        is_fixed = _is_served_here(setup.account)
        node = self._here if is_fixed else self._all[next(self._started) % len(self._all)]
        where = NodeAffinitySchedulingStrategy(node, soft=not is_fixed)
        account(setup.limiter)
        return LANE_ACTOR.options(scheduling_strategy=where, max_concurrency=STREAMS).remote(setup, site)


def _is_served_here(setup: AccountSetup) -> bool:
    return bool(setup.entry.serve) or urlsplit(setup.url).hostname in LOOPBACK


class Listener:
    """Tells an actor, which has the method `hear` of RemoteWatch, how old the lease's last renewal is (`age_s`).

    See `storage.lease.watches`.
    """

    def __init__(self, actor: Any, age_s: Callable[[], float]) -> None:
        self._actor, self._age_s = actor, age_s
        self._answer = actor.hear.remote(None)

    def tell(self) -> None:
        """Send the current age, unless the last message is unanswered. Errors of a dead actor are ignored."""
        if not finished([self._answer]):
            return
        try:
            stamp: float = ray.get(self._answer)
        except RayError:  # Ray may restart the actor, with another clock
            self._answer = self._actor.hear.remote(None)
            return
        self._answer = self._actor.hear.remote(RenewalAge(self._age_s(), stamp))


@dataclass
class _Slot:
    """One lane of a pool, the reference that resolves once it is open, and its latest counters."""

    number: int
    lane: Any
    opened: Any
    listener: Listener
    latest: Counters = field(default_factory=Counters)

    @property
    def is_open(self) -> bool:
        return bool(finished([self.opened]))


class Pool:
    """The lanes of one provider account, with the sum of their counters.

    `start` starts a lane; `lease_age_s` returns the age of the last renewal of the lease. A replacement waits `pause_s`
    before it sends, because the lane it replaces may still be sending.
    """

    def __init__(
        self,
        setup: LaneSetup,
        size: int,
        start: Callable[[LaneSetup], Any],
        lease_age_s: Callable[[], float],
        pause_s: float,
    ) -> None:
        self.channel = Channel(setup.account.provider, Mode.ONLINE)
        self._setup, self._start, self._lease_age_s, self._pause_s = setup, start, lease_age_s, pause_s
        self._slots = [self._slot(number, setup) for number in range(size)]
        self._replaced = Counters()
        self._parts: dict[Any, tuple[int, _Slot]] = {}
        self._ending: dict[Any, _Slot] = {}
        self.is_used = False

    def _slot(self, number: int, setup: LaneSetup) -> _Slot:
        lane = self._start(setup)
        return _Slot(number, lane, lane.open.remote(), Listener(lane, self._lease_age_s))

    @property
    def is_busy(self) -> bool:
        """Whether a dispatch is in progress."""
        return bool(self._parts)

    def complete(self, order: int, begin: Callable[[Any, Share], Any]) -> None:
        """Have each lane complete its share of a dispatch; `begin` returns the reference to the end of one share."""
        self.is_used = True
        for slot in self._slots:
            self._parts[begin(slot.lane, Share(slot.number, len(self._slots)))] = order, slot

    def poll(self) -> Iterator[Event]:
        """Yield the events since the last call; raise HabError or OSError if an error ended a lane."""
        if not self.is_used:
            return
        ended = finished(list(self._parts))
        died: dict[int, WorkerDied] = {}
        yield from self._reports(self._slots, ANSWER_S, died)
        for ref in ended:
            try:
                result(ref, self._who)
            except WorkerDied as error:
                died[self._parts[ref][1].number] = error
            else:
                yield from self._end_part(ref)
        for number, death in died.items():
            yield from self._replace(self._slots[number], death)

    def stop(self, drain_s: float = inf) -> None:
        """Send no further requests; those in flight have `drain_s` seconds. Does not wait; callable from any thread."""
        for slot in self._slots:
            slot.lane.stop.remote(drain_s)

    def end(self) -> bool:
        """Begin to close each lane after its calls in flight, and return True; kill an unused pool and return False."""
        if not self.is_used:
            for slot in self._slots:
                ray.kill(slot.lane)
            return False
        self._ending = {slot.lane.close.remote(): slot for slot in self._slots}
        return True

    def last_events(self) -> Iterator[Event]:
        """Yield the events of lanes that are closing. A lane that died or hangs is written off."""
        if not self._ending:
            return
        for ref in finished(list(self._ending)):
            slot = self._ending.pop(ref)
            try:
                yield from self._events([(slot, result(ref, self._who, DRAINING_ANSWER_S))])
            except Exception:
                slot.latest = slot.latest.written_off()
        for slot in self._ending.values():
            with suppress(EngineBroke):  # it ended just now; the next call handles its final report
                yield from self._reports([slot], DRAINING_ANSWER_S, {})
        if not self._ending:
            yield CountersRead(self.channel, self._counters())
            yield ChannelEnded(self.channel)

    @property
    def _who(self) -> str:
        return f"the worker that calls {self.channel.provider}"

    def _reports(self, slots: list[_Slot], timeout_s: float, died: dict[int, WorkerDied]) -> Iterator[Event]:
        """Yield the events of open lanes; add those that do not answer in time to `died`."""
        for slot in slots:
            slot.listener.tell()
        asked = [(slot, slot.lane.report.remote()) for slot in slots if slot.is_open]
        reports = []
        for slot, ref in asked:
            try:
                reports.append((slot, result(ref, self._who, timeout_s)))
            except WorkerDied as error:
                died[slot.number] = error
        yield from self._events(reports)

    def _events(self, reports: list[tuple[_Slot, EngineReport]]) -> Iterator[Event]:
        """Yield spooled calls first, then the counters by which their source rows are finished."""
        opened = []
        for slot, report in reports:
            slot.latest = replace(report.counters, open=[])
            opened += report.counters.open
            if report.spooled:
                yield CallsSpooled(report.spooled)
        if reports:
            yield CountersRead(self.channel, replace(self._counters(), open=opened))

    def _counters(self) -> Counters:
        return sum((slot.latest for slot in self._slots), self._replaced)

    def _end_part(self, ref: Any) -> Iterator[Event]:
        order, _ = self._parts.pop(ref)
        if all(other != order for other, _ in self._parts.values()):
            yield DispatchEnded(order)

    def _replace(self, slot: _Slot, error: WorkerDied) -> Iterator[Event]:
        ray.kill(slot.lane)
        self._replaced += slot.latest.written_off()
        wait_s = max(self._setup.wait_s, self._pause_s)
        self._slots[slot.number] = self._slot(slot.number, replace(self._setup, wait_s=wait_s))
        yield CountersRead(self.channel, self._counters())
        yield WorkerReplaced(self.channel, error)
        for ref in [ref for ref, (_, owner) in self._parts.items() if owner is slot]:
            yield from self._end_part(ref)
