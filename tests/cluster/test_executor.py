"""The executor on Ray while a run ends, without a Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hab_ray.cluster.executor import RayExecutor, _Session

if TYPE_CHECKING:
    from hab_ray.cluster.placement import Placement
    from hab_ray.cluster.pools import Listener
    from hab_ray.cluster.tasks import Tasks
    from hab_ray.executors.online import RunSetup


class CountingListener:
    """Counts what the budget's actor is told of the lease."""

    def __init__(self) -> None:
        self.told = 0

    def tell(self) -> None:
        self.told += 1


def test_the_budget_hears_of_the_lease_also_while_the_run_ends() -> None:
    """Else engines whose last call takes longer than a lease lasts return nothing, and it counts as spent."""
    executor, listener = RayExecutor(cast("RunSetup", None), lambda: None), CountingListener()
    executor._session = _Session(
        cast("Tasks", None), cast("Placement", None), listener=cast("Listener", listener), is_ending=True
    )
    assert executor.poll() == [] and listener.told == 1
