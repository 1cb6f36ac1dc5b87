"""When an engine opens after an unclean end."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from hab_ray.engine.jobs import Counters
from hab_ray.executors import provider_engine
from hab_ray.executors.provider_engine import ProviderEngine


@pytest.mark.parametrize("wrong_by_s", [-3600, 3600])
def test_a_wrong_clock_changes_no_wait_for_what_a_dead_driver_may_send(
    wrong_by_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(snapshot=Counters, in_flight=0)

    monkeypatch.setattr(provider_engine, "open_engine", opened)
    setup: Any = SimpleNamespace(provider="lab")
    around: Any = dict
    now, began = time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: now + wrong_by_s)
    engine = ProviderEngine(setup, "w", around, wait_s=0.3)
    engine.opened.result(timeout=5)
    assert time.monotonic() - began >= 0.3 and engine.is_open
    engine.close().result(timeout=5)
