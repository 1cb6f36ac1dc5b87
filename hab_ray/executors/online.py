"""What an online executor is given, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from hab_ray.catalog.models import folder_name
from hab_ray.engine.online.opening import AccountSetup
from hab_ray.executors.budget import MovableBudget
from hab_ray.executors.protocol import Executor, Workers
from hab_ray.executors.settling import WorkerContext
from hab_ray.stopping import Stop
from hab_ray.storage.lease.lease import Lease


@dataclass(frozen=True)
class OnlineSetup:
    """What a run gives the executor of its online calls.

    `url` finds an endpoint; `needed` names the providers whose connections should begin to open at the start. No call
    is sent before `not_before` (Unix time): after a crash, workers of the dead driver may send for some seconds more.
    """

    site: WorkerContext
    lease: Lease
    budget: MovableBudget
    stop: Stop
    url: Callable[[str], str]
    needed: Callable[[], Sequence[str]]
    not_before: float
    verbose: bool


class OnlineExecutor(Executor, Protocol):
    """Completes calls online. It costs nothing before its first dispatch."""

    @property
    def workers(self) -> Workers | None:
        """Who settles and computes now that it is started; None where this process does."""


def account_setup(setup: OnlineSetup, provider: str) -> AccountSetup:
    """What an engine for one of the run's providers needs to know."""
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
    """The name of a provider account: the same for all that call one place with one key."""
    place = sha256(f"{url} {key_env}".encode()).hexdigest()[:12]
    return f"{folder_name(provider)}-{place}"


OnlineFactory = Callable[[OnlineSetup, Callable[[], None]], OnlineExecutor]
