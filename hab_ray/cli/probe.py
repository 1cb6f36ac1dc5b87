"""`hab plan --probe N`: makes a few calls of each stage, model and dimension to measure what the plan would guess."""

import asyncio
from contextlib import ExitStack

from hab_ray.cli.ending import ask_to_spend, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.config.sweep import spending_limit
from hab_ray.errors import Exit
from hab_ray.executors.serving import Endpoints
from hab_ray.planning.make import Latencies
from hab_ray.planning.probe import Probe, Probed, most
from hab_ray.storage.folder import open_folder
from hab_ray.storage.record import run_id_in
from hab_ray.storage.replies.store import Store
from hab_ray.sweep.session import spending
from hab_ray.visible import for_unanswered, one_line, usd
from hab_ray.work import Work

_REASONS_SHOWN = 5


def probe_sweep(work: Work, each: int, yes: bool) -> tuple[Latencies, Exit]:
    """Complete `each` calls per stage, model and dimension, less those in the store; ask before spending unless `yes`.

    Raises:
        ConfigError: there is no terminal to ask on.
        Interrupted: the user answered no or stopped the probe.
        StoreHeld: another driver holds the store.
    """
    calls, nanousd = most(work, Store(open_folder(work.sweep.store)), each)
    if not calls:
        say(f"nothing to probe: the store has {each:,} replies, or all, of everything that can be asked now")
        return {}, Exit.COMPLETE
    say(
        f"the probe sends at most {calls:,} calls and costs at most {usd(nanousd)}; "
        "the run reuses the replies and does not pay for them again"
    )
    if nanousd and not yes:
        ask_to_spend("a probe")
    probed = _run_probe(work, each)
    lost = for_unanswered(probed.lost_nanousd)
    say(f"probed: {probed.calls:,} calls sent, {usd(probed.cost_nanousd)} paid{lost}")
    for what, reasons in (("unanswered", probed.unanswered), ("failed", probed.failed)):
        for reason in reasons[:_REASONS_SHOWN]:
            say(f"  {what}: {one_line(reason)}", "red")
    if probed.failed:
        say("  `hab run` sends failed calls again only with --retry-failed", "red")
    if probed.budget_reached:
        warn(Exit.BUDGET.meaning)
        return probed.latencies, Exit.BUDGET
    return probed.latencies, Exit.UNANSWERED if probed.unanswered or probed.failed else Exit.COMPLETE


def _run_probe(work: Work, each: int) -> Probed:
    with spending(work, stop, warn) as session, ExitStack() as stack:
        if run_id_in(work.run_path) is not None:  # without an id the first `hab run` adopts the probe's spending
            session = session.adopt_id()
            session.register_run()
        session = session.with_api_versions()
        budget, url = session.budget(spending_limit(work.sweep)), Endpoints(session.work, stack).url
        probe = Probe(session.work, session.lease.epoch, session.lease.watch(), each, url, budget)
        probed = asyncio.run(session.ask(probe))
        stop.check()
        return probed
