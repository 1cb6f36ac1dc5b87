"""Limits and budget for all lanes of a cluster: actors around the engine's pure classes.

One named, detached actor a provider account, in a namespace of its own, so that lanes of other drivers and nodes
find it too. It ends with its last lane. When it dies, the lanes make a new one and tell it what they have in
flight; it starts with no burst, so nothing is sent faster than before. The budget's actor belongs to
one run's driver; Ray starts it again where it dies, and it goes on from its mark and from what the engines report.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from hab_ray.catalog.models import Limits
from hab_ray.engine.budget.protocol import BudgetGrant, BudgetRequest
from hab_ray.engine.limits.protocol import LimiterReply, PermitRequest, Report
from hab_ray.engine.limits.shared import LOST_AFTER_S, Enrolment, SharedLimiter
from hab_ray.executors.budget import BudgetSetup
from hab_ray.storage.lease.watches import RenewalAge

NAMESPACE = "hab_ray-limits"
LOOK_EVERY_S = 2.0
RETRY_S = 0.2
ANSWER_S = 60.0
PATIENCE_S = 300.0
MAX_LANES = 1000
MAX_RESTARTS = 20


@ray.remote(num_cpus=0.01)
class AccountActor:
    """The limits of one provider account. It looks after its lanes every `look_every_s`.

    Without a lane for `empty_s` it ends.
    """

    def __init__(self, empty_s: float = LOST_AFTER_S, look_every_s: float = LOOK_EVERY_S) -> None:
        self._account = SharedLimiter()
        self._empty_s, self._look_every_s = empty_s, look_every_s
        self._empty_since = time.monotonic()
        self._watching: asyncio.Task[None] | None = None

    async def keep_watch(self) -> None:
        """Let go of silent lanes from now on, and end when nobody comes."""
        self._watching = self._watching or asyncio.create_task(self._watch())

    async def enrol(self, lane: Enrolment) -> None:
        self._account.enrol(lane, time.monotonic())

    async def exchange(
        self, lane: str, reports: Sequence[Report], requests: Sequence[PermitRequest]
    ) -> LimiterReply | None:
        return self._account.exchange(lane, reports, requests, time.monotonic())

    async def leave(self, lane: str) -> None:
        """A lane ends, and with the last one this actor."""
        self._account.leave(lane, time.monotonic())
        if self._account.is_empty:
            _end_this_actor()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._look_every_s)
            now = time.monotonic()
            self._account.drop_silent(now)
            if not self._account.is_empty:
                self._empty_since = now
            elif now - self._empty_since > self._empty_s:
                _end_this_actor()


def _end_this_actor() -> None:
    """End at once. An asyncio actor that ends by `exit_actor` while it is called may answer nobody and stay."""
    ray.kill(ray.get_runtime_context().current_actor)


def account(name: str) -> Any:
    """The actor of a provider account, made where there is none."""
    options: dict[str, Any] = {"lifetime": "detached", "get_if_exists": True, "max_concurrency": MAX_LANES}
    options |= {"name": name, "namespace": NAMESPACE}
    actor = AccountActor.options(**options).remote()  # type: ignore[attr-defined]
    actor.keep_watch.remote()
    return actor


class SharedLimiterClient:
    """A lane's way to its account's actor. One that does not answer for `ANSWER_S` is ended and made again.

    Raises RayError or TimeoutError where the cluster gives no actor that answers for `PATIENCE_S`.
    """

    gap_s = 0.05
    silence_s = 10.0

    def __init__(self, name: str, lane: str, limits: Mapping[str, Limits], patience_s: float) -> None:
        self._name, self._lane, self._limits, self._patience_s = name, lane, limits, patience_s
        self._in_flight: Counter[str] = Counter()
        self._actor: Any = None

    async def exchange(self, reports: Sequence[Report], requests: Sequence[PermitRequest]) -> LimiterReply:
        """What was in flight before the reports is what a new actor is told."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                async with asyncio.timeout(ANSWER_S):  # wait_for loses a cancellation that comes with the answer
                    granted = await self._ask(reports, requests)
            except (RayError, TimeoutError) as error:
                if isinstance(error, TimeoutError):
                    ray.kill(self._actor)
                self._actor = None
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(RETRY_S)
                continue
            if granted is not None:
                break
            self._actor = None
        self._in_flight.subtract({report.model: report.finished for report in reports})
        self._in_flight.update({model: grant.count for model, grant in granted.grants.items()})
        return granted

    async def _ask(self, reports: Sequence[Report], requests: Sequence[PermitRequest]) -> LimiterReply | None:
        if self._actor is None:
            self._actor = account(self._name)
            await self._actor.enrol.remote(Enrolment(self._lane, self._limits, self._patience_s, dict(self._in_flight)))
        granted: LimiterReply | None = await self._actor.exchange.remote(self._lane, reports, requests)
        return granted

    async def close(self) -> None:
        if self._actor is not None:
            self._actor.leave.remote(self._lane)


@ray.remote(num_cpus=0.01)
class BudgetActor:
    """The budget of one run in one epoch, see `Budget`."""

    def __init__(self, setup: BudgetSetup) -> None:
        self._watch = setup.watch
        self._budget = setup.open(self._watch)

    async def hear(self, heard: RenewalAge | None) -> float:
        """Ray may start this actor anew, and then it grants nothing before it hears."""
        return self._watch.hear(heard)

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        return self._budget.grant(request)


def budget_actor(setup: BudgetSetup) -> Any:
    """The actor that keeps the budget of this driver's run. A draw that its death cuts off is sent again."""
    again = {"max_restarts": MAX_RESTARTS, "max_task_retries": -1, "max_concurrency": MAX_LANES}
    return BudgetActor.options(**again).remote(setup)  # type: ignore[attr-defined]


class SharedBudget:
    """An engine's way to its run's budget."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        grant: BudgetGrant = await self._actor.grant.remote(request)
        return grant
