"""Limits shared by lanes through their account's actor, on a real Ray."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RayActorError

from hab_ray.catalog.models import Limits
from hab_ray.cluster import limits
from hab_ray.cluster.limits import (
    ACCOUNT_ACTOR,
    NAMESPACE,
    SharedBudget,
    SharedLimiterClient,
    budget_actor,
)
from hab_ray.engine.budget.budget import OpeningBalance
from hab_ray.engine.budget.marks import BudgetSetup
from hab_ray.engine.budget.protocol import BudgetGrant, BudgetRequest, EngineTotals
from hab_ray.engine.limits.protocol import LimiterReply, PermitRequest, Report
from hab_ray.executors.online import account_name
from hab_ray.location import Location
from hab_ray.storage.lease.lease import LocalLease

pytestmark = pytest.mark.usefixtures("ray_address")
LIMITS = {"m": Limits(concurrent=10)}
STARTS_S = 300  # 20 to over 120 s on two cores with 20 other processes


def lane(name: str, account: str) -> SharedLimiterClient:
    return SharedLimiterClient(account, name, LIMITS, 30.0)


def actor(account: str) -> Any:
    return ray.get_actor(account, namespace=NAMESPACE)


async def until(reached: Callable[[], bool], within_s: float) -> None:
    end = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < end
        await asyncio.sleep(0.1)


def is_gone(account: str) -> bool:
    try:
        actor(account)
    except ValueError:
        return True
    return False


async def test_two_lanes_share_an_actor_that_ends_with_the_last_one() -> None:
    name = account_name("shared", "http://a", "KEY")
    first, second = lane("first", name), lane("second", name)
    assert (await first.exchange([], [PermitRequest("m", (1,) * 7)])).grants["m"].count == 7
    assert (await second.exchange([], [PermitRequest("m", (1,) * 7)])).grants["m"].count == 3
    await first.exchange([Report("m", finished=7, stop="retired")], [])
    told = await second.exchange([], [PermitRequest("m", (1,))])
    assert (told.grants["m"].reason, told.stops) == ("retired", {"m": "retired"})
    await first.close()
    await asyncio.sleep(1.0)
    assert not is_gone(name)
    await second.close()
    await until(lambda: is_gone(name), 20)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
async def test_an_actor_that_dies_or_answers_nobody_is_made_again_and_told_what_is_in_flight(
    sent: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = account_name("mortal", f"http://{sent}", None)
    permits = lane("only", name)
    assert (await permits.exchange([], [PermitRequest("m", (1,) * 8)])).grants["m"].count == 8
    monkeypatch.setattr(limits, "ANSWER_S", 0.1)  # much less than the next actor takes to start
    os.kill(ray.get(actor(name).__ray_call__.remote(lambda _: os.getpid())), sent)
    granted = await asyncio.wait_for(
        permits.exchange([Report("m", finished=3, answered=3)], [PermitRequest("m", (1,) * 8)]), 60
    )
    assert granted.grants["m"].count == 5
    await permits.close()


async def test_an_actor_that_ends_for_want_of_lanes_leaves_no_caller_waiting() -> None:
    ending: Any = ACCOUNT_ACTOR.options(max_concurrency=100).remote(0.3, 0.05)
    with pytest.raises(RayActorError):
        await asyncio.wait_for(ending.keep_watch.remote(), STARTS_S)
        while True:
            assert await asyncio.wait_for(ending.exchange.remote("nobody", [], []), 20) is None


async def test_accounts_differ_by_place_and_key() -> None:
    names = {account_name(p, u, k) for p in ("a", "b") for u in ("http://x", "http://y") for k in (None, "K")}
    assert len(names) == 8


async def test_a_budget_is_one_for_all_engines_and_outlives_its_actor(tmp_path: Path) -> None:
    lease = LocalLease.acquire(Location.of(tmp_path), Location("runs/x"), datetime.now(UTC))
    actor = budget_actor(
        BudgetSetup(1000, OpeningBalance(spent=100), Location.of(tmp_path), lease.epoch, lease.elsewhere)
    )
    first, second = SharedBudget(actor), SharedBudget(actor)
    assert await first.grant(BudgetRequest("one", 0, EngineTotals(), least=10, want=2000)) == BudgetGrant(450, 900)
    assert await second.grant(BudgetRequest("two", 0, EngineTotals(), least=450, want=450)) == BudgetGrant(450, 900)
    spent = BudgetRequest("one", 1, EngineTotals(granted=450, spent=450), least=1, want=1)
    assert await first.grant(spent) == BudgetGrant(0, 450)
    pid = ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))
    os.kill(pid, signal.SIGKILL)
    again = BudgetRequest("one", 2, EngineTotals(450, 0, 450), least=1, want=1)
    assert await asyncio.wait_for(first.grant(again), 60) == BudgetGrant(0, 0)
    assert await second.grant(BudgetRequest("two", 1, EngineTotals(450, 0, 50))) == BudgetGrant(0, 400)
    assert await second.grant(BudgetRequest("two", 2, EngineTotals(450, 400, 50), least=10, want=10)) == BudgetGrant(
        10, 400
    )
    lease.release()


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_cancellation_that_comes_with_the_answer_is_not_lost(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: asyncio.Future[LimiterReply] = asyncio.get_running_loop().create_future()

    async def ask(*_: object) -> LimiterReply:
        return await answer

    permits = SharedLimiterClient("account", "lane", {}, 60.0)
    monkeypatch.setattr(permits, "_ask", ask)
    exchange = asyncio.create_task(permits.exchange([], []))
    await asyncio.sleep(0.01)
    answer.set_result(LimiterReply({}, {}))
    for _ in range(turns):
        await asyncio.sleep(0)
    taken = exchange.cancel()
    await asyncio.wait([exchange])
    assert exchange.cancelled() == taken
