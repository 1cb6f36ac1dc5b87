"""The executor on Ray while a run ends, without a Ray."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from hab_ray.cluster.executor import RayExecutor


class CountingListener:
    """Counts how often the budget's actor is told the lease's age."""

    def __init__(self) -> None:
        self.told = 0

    def tell(self) -> None:
        self.told += 1


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> CountingListener:
    """The listener of an executor whose Ray is none."""
    listener = CountingListener()
    monkeypatch.setattr("hab_ray.cluster.executor.ray_session", nullcontext)
    for name in ("executor.alive_nodes", "executor.require_folders", "limits.budget_actor", "tasks.Tasks"):
        monkeypatch.setattr(f"hab_ray.cluster.{name}", MagicMock())
    monkeypatch.setattr("hab_ray.cluster.pools.Placement", MagicMock())
    monkeypatch.setattr("hab_ray.cluster.pools.Listener", lambda *_: listener)
    return listener


def test_the_budget_hears_of_the_lease_also_while_the_run_ends(listener: CountingListener) -> None:
    """Else engines whose last call takes longer than a lease lasts return nothing, and it counts as spent."""
    setup: Any = MagicMock(
        needed=list,
        stop=SimpleNamespace(immediate=nullcontext),
        budget=SimpleNamespace(move=lambda keeper: keeper(MagicMock())),
    )
    executor = RayExecutor(setup, lambda: None)
    executor.settle(MagicMock())
    assert executor.end() == [] and listener.told == 0
    assert executor.poll() == [] and listener.told == 1
