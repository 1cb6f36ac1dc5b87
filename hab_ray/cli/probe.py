"""`hab plan --probe N`: spend a few calls of each cell to measure what the plan would guess."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from rich.console import Console

from hab_ray.cli.agree import ask_to_spend
from hab_ray.cli.identity import entered, identified, registry_of
from hab_ray.cli.leasing import lease_terms
from hab_ray.config import spending_limit
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.errors import Exit
from hab_ray.executors.api_versions import with_api_versions
from hab_ray.plan.make import Latencies
from hab_ray.plan.probe import Probe, Probed, most
from hab_ray.prices import NANO
from hab_ray.resolve import run_id_in
from hab_ray.serving import Endpoints
from hab_ray.stopping import DRAIN_S, LATE_S, Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease import UNCLEAN_WAIT_S, Lease
from hab_ray.storage.simulated import refuse_simulated
from hab_ray.storage.spending import keep_lost
from hab_ray.storage.store import Store
from hab_ray.storage.takeover import LeaseTerms, acquire_lease
from hab_ray.sweep.budget import RunBudget
from hab_ray.visible import one_line
from hab_ray.work import Work

_REASONS_SHOWN = 5


def probe_sweep(work: Work, each: int, yes: bool, console: Console, stop: Stop) -> tuple[Latencies, Exit]:
    """Have `each` calls of every cell answered, as far as the store lacks them, after asking unless `yes`.

    Raises:
        ConfigError: nobody is there to be asked, or a rehearsal's folder is named.
        Interrupted: the answer was no, or the user ended it.
        StoreHeld: another driver has the store.
    """
    expense = most(work, Store(open_folder(work.sweep.store)), each)
    if not expense.calls:
        console.print(f"nothing to probe: the store has {each} replies of every cell that can be asked now")
        return {}, Exit.COMPLETE
    console.print(
        f"the probe sends at most {expense.calls:,} calls and costs at most ${expense.nanousd / NANO:.4f}; "
        "the run finds them in the store and does not pay for them again",
        soft_wrap=True,
    )
    if expense.nanousd and not yes:
        ask_to_spend("a probe", console)
    probed = _probe(work, each, lease_terms(work, console), stop)
    _tell(probed, console)
    if probed.budget_reached:
        return probed.latencies, Exit.BUDGET
    return probed.latencies, Exit.UNANSWERED if probed.unanswered else Exit.COMPLETE


def _probe(work: Work, each: int, terms: LeaseTerms, stop: Stop) -> Probed:
    refuse_simulated(work.sweep)
    lease = acquire_lease(work.sweep.store, work.run_path, datetime.now(UTC), terms)
    folder = open_folder(work.sweep.store)
    try:
        with ExitStack() as stack:
            work = asyncio.run(with_api_versions(_known_run(work), folder))
            probe = Probe(work, lease.epoch, lease.watch(), each, Endpoints(work, stack).url, _money(work, lease))
            with stop.last_words(lease.release):
                probed = asyncio.run(_until_asked_to_end(probe, 0.0 if lease.clean else UNCLEAN_WAIT_S, stop))
        if probed.lost_nanousd:
            keep_lost(folder, lease.epoch, probed.lost_nanousd)
        stop.check()
        return probed
    finally:
        lease.release()


def _known_run(work: Work) -> Work:
    """The work as its run has it; where no run has started yet, the first one claims what the probe spends."""
    if run_id_in(work.run_path) is None:
        return work
    work = identified(work)
    entered(work, datetime.now(UTC))
    return work


def _money(work: Work, lease: Lease) -> BudgetService:
    """The run's budget; a probe collects no batches, so what is set aside for them is out of its reach."""
    store, registry = work.sweep.store.absolute(), registry_of(work)
    budget = RunBudget(spending_limit(work.sweep), open_folder(store), store, lease)
    earlier = registry.epochs(work.run_id, work.run_path) - {lease.epoch}
    budget.open_books(earlier, registry.released_up_to(work.run_id), models=())
    return budget.client()


async def _until_asked_to_end(probe: Probe, wait_s: float, stop: Stop) -> Probed:
    """Probe; on Ctrl-C or SIGTERM nothing more is sent, and calls in flight get `DRAIN_S` to be answered and kept."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()

    async def end_when_asked() -> None:
        await asked.wait()
        await probe.stop(DRAIN_S)

    def on_stop() -> None:
        loop.call_soon_threadsafe(asked.set)

    with stop.deferred(on_stop, DRAIN_S + LATE_S):
        ending = asyncio.create_task(end_when_asked())
        with suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), wait_s)
        probed = await probe.run()
        ending.cancel()
        return probed


def _tell(probed: Probed, console: Console) -> None:
    console.print(f"probed: {probed.calls:,} calls sent, ${probed.cost_nanousd / NANO:.4f} paid")
    for reason in probed.unanswered[:_REASONS_SHOWN]:
        console.print(f"  unanswered: {one_line(reason)}", style="red", soft_wrap=True)
