"""Placement of lanes: how many a provider account needs, and on which nodes they run."""

from __future__ import annotations

from itertools import count
from math import ceil, inf
from typing import Any
from urllib.parse import urlsplit

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hab_ray.catalog.addresses import LOOPBACK
from hab_ray.cluster.lanes import LANE_ACTOR, STREAMS, LaneSetup
from hab_ray.cluster.limits import account
from hab_ray.cluster.nodes import alive_nodes, cluster_cpus
from hab_ray.engine.online.opening import AccountSetup

# One core handles about 600 calls/s (`git show 2f47afb:benchmarks/online_speed.py`); a lane should need less than half.
LANE_CALLS_PER_S = 250.0
LANE_CPUS = 2.0
_TYPICAL_CALL_S = 4.0


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
