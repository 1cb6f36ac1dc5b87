"""`hab plan`: show a sweep's calls, cost and time."""

import json
import os
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated

import typer

from hab_ray.cli.ending import console, ends_with_status, on_stderr, say, warn
from hab_ray.cli.options import SweepArgument
from hab_ray.cli.prepare import RunChoices, prepare
from hab_ray.cli.views.plan_view import print_long_plan, print_plan, to_json
from hab_ray.errors import Exit
from hab_ray.executors.choice import choose_executor, online_calls
from hab_ray.given.sample import describe_sample
from hab_ray.planning import make_plan
from hab_ray.planning.make import Latencies
from hab_ray.planning.models import unheeded_settings
from hab_ray.planning.problems import Severity, refuse_errors
from hab_ray.storage.lease.takeover import held_notice
from hab_ray.work import Work, drawn_tests


def _executor_line(work: Work) -> str:
    choice = choose_executor(work, os.environ)
    where = "by Ray workers" if choice.executor == "ray" else "in the process of `hab run`"
    return f"online calls are made {where}: {choice.reason} (executor: {work.sweep.executor})"


@ends_with_status
def command(
    sweep: SweepArgument,
    *,
    choices: RunChoices,
    long: Annotated[
        bool, typer.Option("--long", help="Also show tokens, both prices, other budgets and detectable differences.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole plan as JSON, by dimension too.")] = False,
    probe: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="First send this many calls per stage, model and dimension to measure tokens."
        ),
    ] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the probe costs without asking.")] = False,
) -> Exit:
    """Show a sweep's calls, cost and time, and any problems. Sends nothing without --probe.

    The run reuses the replies of a probe and does not pay for them again. With a missing key or a retired model the
    plan is shown and the exit status is 2; with a missing price there is no plan.
    """
    work, problems = prepare(sweep, choices, datetime.now(UTC))
    latencies: Latencies = {}
    status = Exit.COMPLETE
    if probe:
        from hab_ray.cli.probe import probe_sweep

        refuse_errors(problems)
        with on_stderr() if as_json else nullcontext():
            latencies, status = probe_sweep(work, probe, yes)
    plan = make_plan(work, latencies)
    if as_json:
        console.print_json(json.dumps(to_json(plan, problems, unheeded_settings(work))), ensure_ascii=True)
    elif long:
        from hab_ray.cli.views.detectable import detectable_effects

        print_long_plan(work, plan, problems, console)
        for line in detectable_effects(work):
            say(line)
        if online_calls(work):
            say(_executor_line(work))
    else:
        print_plan(work, plan, problems, console)
    if not as_json and (held := held_notice(work.sweep.store, work.run_path)):
        warn(f"now: {held}")
    if not as_json and (sampled := describe_sample(work.sweep.responses, drawn_tests(work))):
        say(sampled)
    return Exit.CONFIGURATION if any(p.severity is Severity.ERROR for p in problems) else status
