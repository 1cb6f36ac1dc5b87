"""Builds the driver of a run and all that it works with. `ONLINE` lists the online executors."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from hab_ray.catalog.prices import Mode
from hab_ray.cluster.executor import RayExecutor
from hab_ray.cluster.metrics import RunMetrics
from hab_ray.config.sweep import spending_limit
from hab_ray.executors.batch import BatchExecutor, BatchSetup, nth_part
from hab_ray.executors.budget import RunBudget
from hab_ray.executors.choice import choose_executor
from hab_ray.executors.local import LocalExecutor
from hab_ray.executors.online import OnlineFactory, RunSetup
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import Service
from hab_ray.executors.serving import Endpoints
from hab_ray.executors.settling import WorkerContext
from hab_ray.executors.workers import LocalWorkers
from hab_ray.stopping import Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import UNCLEAN_WAIT_S, Lease
from hab_ray.storage.lease.watches import wait_until_held
from hab_ray.storage.record import read_record
from hab_ray.storage.replies.store import Store
from hab_ray.sweep.dispatching import DriverContext
from hab_ray.sweep.driver import Driver
from hab_ray.sweep.monitoring.announcing import Announcer
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.monitoring.log import RunLog
from hab_ray.sweep.monitoring.reporting import Reporter
from hab_ray.sweep.options import Options
from hab_ray.sweep.routing import Router
from hab_ray.sweep.session import Session
from hab_ray.sweep.shards import Shards, ShardStatus
from hab_ray.work import Work

ONLINE: Mapping[str, OnlineFactory] = {"local": LocalExecutor, "ray": RayExecutor}


@dataclass(frozen=True)
class RunComponents:
    """The driver of a run and what it works with. `wait` sleeps for some seconds or until a service has an event."""

    store: Store
    pending: Pending
    counters: RunCounters
    budget: RunBudget
    reporter: Reporter
    batches: BatchExecutor
    local: LocalWorkers
    services: Sequence[Service]
    wait: Callable[[float], None]
    driver: Driver


def build_run(session: Session, options: Options, stack: ExitStack) -> RunComponents:
    """Build a run's driver without starting anything. `stack` closes the services and local model servers."""
    work, lease, stop, wake = session.work, session.lease, session.stop, threading.Event()
    path = work.sweep.store.absolute()
    folder = open_folder(path)
    epochs = session.earlier | {lease.epoch}
    risk = _risk(work, options)
    pending = Pending(work.run_path, lease.epoch, sample_seed=None if risk is None else work.sweep.seed)
    site = WorkerContext(work, path, lease.epoch if options.retry_failed else 0, pending)
    shards = Shards(work)
    counters = RunCounters(shards.all)
    budget = session.run_budget(spending_limit(work.sweep))
    announcer = Announcer(options.watch)
    stack.callback(announcer.close)
    log = RunLog(str(work.sweep.run_folder), shards)
    reporter = Reporter(work, shards, counters, budget, announcer, _metrics(work, shards), log)
    deadline = _deadline(work)
    setup = RunSetup(
        site=site,
        lease=lease,
        budget=budget,
        stop=stop,
        url=_urls(work, stop, stack),
        needed=lambda: _providers_online(work, shards),
        not_before=0.0 if lease.clean else time.time() + UNCLEAN_WAIT_S,
        verbose=options.verbose,
    )
    part = nth_part(1.0, len(epochs))
    batches = BatchExecutor(BatchSetup(setup, epochs, deadline, options.detach, risk, part), wake.set)
    executor = choose_executor(work, os.environ).executor
    if executor == "local" or not _may_go_online(work):  # only this process writes to the run and the store
        folder.claim()
        work.run.folder.claim()
    online = ONLINE[executor](setup, wake.set)
    local = LocalWorkers(site, wake.set)
    services = (online, batches, local)
    wait = partial(_wait, wake)
    for service in services:
        stack.callback(service.close)
    driver = Driver(
        work,
        shards,
        counters,
        Router(work, shards, counters, batches.holds, deadline, lambda: datetime.now(UTC)),
        DriverContext(
            executors={Mode.ONLINE: online, Mode.BATCH: batches},
            workers=lambda: online.workers or local,
            services=services,
            files=site.pending,
            clock=time.monotonic,
            wait=wait,
            check=_may_go_on(stop, lease),
            keep=lambda: budget.keep_lost(counters.online()),
            chosen=options.chosen,
            report=reporter.report,
        ),
    )
    return RunComponents(
        store=site.open_store(),
        pending=site.pending,
        counters=counters,
        budget=budget,
        reporter=reporter,
        batches=batches,
        local=local,
        services=services,
        wait=wait,
        driver=driver,
    )


def _wait(wake: threading.Event, seconds: float) -> None:
    """Sleep for up to `seconds`, or until another thread sets `wake`."""
    wake.wait(seconds)
    wake.clear()


def _urls(work: Work, stop: Stop, stack: ExitStack) -> Callable[[str], str]:
    """Return a function that finds a provider's URL.

    It may start a local model server, which takes up to a minute; a signal interrupts that.
    """
    endpoints = Endpoints(work, stack)

    def url(provider: str) -> str:
        with stop.immediate():
            return endpoints.url(provider)

    return url


def _may_go_on(stop: Stop, lease: Lease) -> Callable[[], None]:
    """Return a check that raises if the user stops the run or the lease is lost, and waits while the lease is stale."""
    watch = lease.watch()

    def check() -> None:
        stop.check()
        watch.check()

    return lambda: wait_until_held(check)


def _metrics(work: Work, shards: Shards) -> RunMetrics:
    calling = (state for state in shards.all if state.shard.spec.makes_calls)
    providers = {(state.shard.stage, state.shard.name): shards.provider(state) for state in calling}
    return RunMetrics(str(work.sweep.run_folder), providers, lambda: datetime.now(UTC))


def _may_go_online(work: Work) -> bool:
    """Whether any call may be sent online, by workers that write to the store."""
    return any(work.mode(shard) != "batch" for shard in work.shards() if shard.spec.makes_calls)


def _risk(work: Work, options: Options) -> float | None:
    """Return the run's risk, or None if batches reserve the maximum cost of their calls.

    With `--detach` they do: the process exits before the first wave shows what calls cost.
    """
    limit = spending_limit(work.sweep)
    is_likely = limit is not None and limit.reserve == "likely" and not options.detach
    return limit.risk if limit and is_likely else None


def _deadline(work: Work) -> datetime | None:
    record, limit = read_record(work.run_path), work.sweep.time_limit
    return record.started + limit if record and limit else None


def _providers_online(work: Work, shards: Shards) -> list[str]:
    """Return the providers of unfinished online calls; servers that `hab` starts come last, as they start slowly."""
    calling = [state for state in shards.all if state.shard.spec.makes_calls]
    unfinished = [state for state in calling if state.status is not ShardStatus.COMPLETE]
    providers = {shards.provider(state) for state in unfinished if work.mode(state.shard) != "batch"}
    return sorted(providers, key=lambda name: (work.catalog.providers[name].serve, name))
