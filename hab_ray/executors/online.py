"""The setup of a run's executors, and what the online ones have in common."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from hab_ray.catalog.models import folder_name
from hab_ray.engine.online.opening import AccountSetup
from hab_ray.executors.budget import RunBudget
from hab_ray.executors.protocol import Executor, Workers
from hab_ray.executors.settling import WorkerContext
from hab_ray.stopping import Stop
from hab_ray.storage.lease.lease import Lease


@dataclass(frozen=True)
class RunSetup:
    """Settings of a run for its executors.

    `url` returns a provider's URL; `needed` returns the providers whose connections should open at the start. No call
    is sent before `not_before` (monotonic seconds): after a crash, workers of the dead driver may keep sending for a
    while.
    """

    site: WorkerContext
    lease: Lease
    budget: RunBudget
    stop: Stop
    url: Callable[[str], str]
    needed: Callable[[], Sequence[str]]
    not_before: float
    verbose: bool

    @property
    def wait_s(self) -> float:
        """How many seconds from now no call is sent. Other machines, whose clocks may differ, get these."""
        return max(0.0, self.not_before - time.monotonic())

    def guard(self) -> Callable[[], None]:
        """Return a check for spenders in this process.

        It raises LeaseStale while nothing may be spent, LeaseLost or Interrupted once spending must end.
        """
        watch = self.lease.watch()

        def check() -> None:
            self.stop.check()
            watch.check()

        return check


class OnlineExecutor(Executor, Protocol):
    """An executor of online calls. It uses no resources before its first dispatch."""

    @property
    def workers(self) -> Workers | None:
        """The started executor's own workers; None if shards are settled and computed in this process."""


def account_setup(setup: RunSetup, provider: str) -> AccountSetup:
    """Return the engine setup for one of the run's providers."""
    site = setup.site
    return AccountSetup(
        provider=provider,
        entry=site.work.catalog.providers[provider],
        url=setup.url(provider),
        models=site.work.models_of(provider),
        store=site.store,
        epoch=site.pending.epoch,
        failures_since=site.failures_since,
    )


def account_name(provider: str, url: str, key_env: str | None) -> str:
    """Return the name of a provider account, which depends on its provider, URL and key variable only."""
    place = sha256(f"{url} {key_env}".encode()).hexdigest()[:12]
    return f"{folder_name(provider)}-{place}"


OnlineFactory = Callable[[RunSetup, Callable[[], None]], OnlineExecutor]
