"""Where lanes work: how many a provider account needs, and on which nodes."""

from __future__ import annotations

from itertools import count
from math import ceil
from typing import Any
from urllib.parse import urlsplit

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hab_ray.catalog.addresses import LOOPBACK
from hab_ray.catalog.models import Limits
from hab_ray.cluster.lanes import STREAMS, Lane, LaneSetup
from hab_ray.cluster.limits import account
from hab_ray.cluster.nodes import alive_nodes, cluster_cpus
from hab_ray.engine.online.opening import AccountSetup

# Measured once (`git show 2f47afb:benchmarks/online_speed.py`): a core carries some 600 calls/s, of which a lane should
# not need more than half.
CALLS_PER_S_OF_A_LANE = 250.0
CPUS_OF_A_LANE = 2.0
_TYPICAL_CALL_S = 4.0


class Placement:
    """The nodes of the cluster as they were when the run began; the driver's own comes last.

    A lane that hears nothing of the lease for `lost_s` seconds sends nothing more.
    """

    def __init__(self, lost_s: float) -> None:
        self._lost_s = lost_s
        self._here = str(ray.get_runtime_context().get_node_id())
        self._all = [*sorted(node.id for node in alive_nodes() if node.id != self._here), self._here]
        self._cpus = cluster_cpus()
        self._turns = count()

    @property
    def pause_s(self) -> float:
        """How long the lane of a node that died may go on before it notices; on the driver's node none does."""
        return self._lost_s if len(self._all) > 1 else 0.0

    def lanes_for(self, setup: AccountSetup) -> int:
        """How many lanes an account gets: as its entry says, or as many as its limits need and the CPUs carry."""
        if _is_served_here(setup):
            return 1
        if setup.entry.lanes:
            return setup.entry.lanes
        needed = ceil(sum(map(_calls_per_s, setup.limits.values())) / CALLS_PER_S_OF_A_LANE)
        return max(1, min(needed, int(self._cpus / CPUS_OF_A_LANE)))

    def start_lane(self, setup: LaneSetup, site: Any) -> Any:
        """Start a lane, on each node in turn; one whose endpoint is on the driver's node stays there.

        `site` is a reference to the run's Site.
        """
        stays = _is_served_here(setup.account)
        node = self._here if stays else self._all[next(self._turns) % len(self._all)]
        where = NodeAffinitySchedulingStrategy(node, soft=not stays)
        account(setup.limiter)
        return Lane.options(scheduling_strategy=where, max_concurrency=STREAMS).remote(setup, site)  # type: ignore[attr-defined]


def _is_served_here(setup: AccountSetup) -> bool:
    return bool(setup.entry.serve) or urlsplit(setup.url).hostname in LOOPBACK


def _calls_per_s(limits: Limits) -> float:
    """The most calls per second that limits allow, by their rate and by how many may be in flight."""
    at_once = limits.concurrent / _TYPICAL_CALL_S
    return at_once if limits.requests_per_minute is None else min(at_once, limits.requests_per_minute / 60)
