"""Rate limits and budget for all lanes of a cluster: actors around the engine's pure classes.

Each provider account has one named, detached actor in a separate namespace, so that lanes of all drivers and nodes
find it. It ends with its last lane. If it dies, the lanes create a new one and report their calls in flight; the new
actor allows no initial burst, so the rate does not rise. The budget's actor belongs to the driver of one run. If it
dies, Ray restarts it, and it continues from its mark and the engines' reports.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from hab_ray.catalog.models import Limits
from hab_ray.engine.budget.marks import BudgetSetup
from hab_ray.engine.budget.protocol import BudgetGrant, BudgetRequest
from hab_ray.engine.limits.protocol import LimiterReply, PermitRequest, Report
from hab_ray.engine.limits.shared import LOST_AFTER_S, Enrolment, SharedLimiter
from hab_ray.storage.lease.watches import RenewalAge

NAMESPACE = "hab_ray-limits"
LOOK_EVERY_S = 2.0
RETRY_S = 0.2
ANSWER_S = 60.0
PATIENCE_S = 300.0
MAX_LANES = 1000
MAX_RESTARTS = 20


class AccountActor:
    """An actor with the limits of one provider account.

    It checks every `look_every_s` for silent lanes, and ends after `empty_s` without a lane.
    """

    def __init__(self, empty_s: float = LOST_AFTER_S, look_every_s: float = LOOK_EVERY_S) -> None:
        self._account = SharedLimiter()
        self._empty_s, self._look_every_s = empty_s, look_every_s
        self._empty_since = time.monotonic()
        self._watching: asyncio.Task[None] | None = None

    async def keep_watch(self) -> None:
        """From now on, drop silent lanes, and end if there is no lane."""
        self._watching = self._watching or asyncio.create_task(self._watch())

    async def enrol(self, lane: Enrolment) -> None:
        self._account.enrol(lane, time.monotonic())

    async def exchange(
        self, lane: str, reports: Sequence[Report], requests: Sequence[PermitRequest]
    ) -> LimiterReply | None:
        return self._account.exchange(lane, reports, requests, time.monotonic())

    async def leave(self, lane: str) -> None:
        """Remove a lane, and end this actor after the last one."""
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
    """End at once. With `exit_actor` during a call, an asyncio actor may hang without answering anyone."""
    ray.kill(ray.get_runtime_context().current_actor)


ACCOUNT_ACTOR = ray.remote(num_cpus=0.01)(AccountActor)


def account(name: str) -> Any:
    """Return the actor of a provider account, creating it if necessary."""
    options: dict[str, Any] = {"lifetime": "detached", "get_if_exists": True, "max_concurrency": MAX_LANES}
    options |= {"name": name, "namespace": NAMESPACE}
    actor: Any = ACCOUNT_ACTOR.options(**options).remote()
    actor.keep_watch.remote()
    return actor


class SharedLimiterClient:
    """A lane's client of its account's actor. An actor that does not answer within `ANSWER_S` is replaced.

    Each replacement gets twice as long as the one before, because it can start slowly on a busy cluster.

    Raises:
        RayError, TimeoutError: no actor answered for `PATIENCE_S`.
    """

    gap_s = 0.05
    silence_s = 10.0

    def __init__(self, name: str, lane: str, limits: Mapping[str, Limits], patience_s: float) -> None:
        self._name, self._lane, self._limits, self._patience_s = name, lane, limits, patience_s
        self._in_flight: Counter[str] = Counter()
        self._actor: Any = None

    async def exchange(self, reports: Sequence[Report], requests: Sequence[PermitRequest]) -> LimiterReply:
        """Exchange messages with the actor; a new one first gets the calls that were in flight before the reports."""
        give_up, answer_s = time.monotonic() + PATIENCE_S, ANSWER_S
        while True:
            try:
                async with asyncio.timeout(answer_s):  # wait_for can lose a cancellation that arrives with the answer
                    granted = await self._ask(reports, requests)
            except (RayError, TimeoutError) as error:
                if isinstance(error, TimeoutError):
                    ray.kill(self._actor)
                    answer_s *= 2
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


class BudgetActor:
    """An actor with the budget of one run in one epoch, see `Budget`."""

    def __init__(self, setup: BudgetSetup) -> None:
        self._watch = setup.watch
        self._budget = setup.open(self._watch)

    async def hear(self, heard: RenewalAge | None) -> float:
        """Pass on a message of the driver. After a restart by Ray, this actor grants nothing before the first one."""
        return self._watch.hear(heard)

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        return self._budget.grant(request)


BUDGET_ACTOR = ray.remote(num_cpus=0.01)(BudgetActor)


def budget_actor(setup: BudgetSetup) -> Any:
    """Start the actor with the budget of this driver's run. If it dies, Ray restarts it and repeats requests."""
    options = {"max_restarts": MAX_RESTARTS, "max_task_retries": -1, "max_concurrency": MAX_LANES}
    return BUDGET_ACTOR.options(**options).remote(setup)


class SharedBudget:
    """An engine's client of the budget actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def grant(self, request: BudgetRequest) -> BudgetGrant:
        grant: BudgetGrant = await self._actor.grant.remote(request)
        return grant
