"""`hab plan`: what a sweep will ask, cost and take, shown before anything is spent."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from hab_ray.cli.plan_view import PlanOptions, print_plan, print_unheeded, to_json
from hab_ray.cli.prepare import Choices, prepare
from hab_ray.cli.terminal import Terminal
from hab_ray.errors import Exit
from hab_ray.executors.choice import choose_executor
from hab_ray.plan import make_plan
from hab_ray.plan.make import Latencies
from hab_ray.preflight import Severity, refuse_errors, unheeded_settings
from hab_ray.stopping import Stop
from hab_ray.storage.answer_sample import sample_told
from hab_ray.storage.folder import open_folder
from hab_ray.storage.store import Store
from hab_ray.visible import one_line
from hab_ray.work import Work, drawn_tests


def show_plan(path: Path, choices: Choices, options: PlanOptions, console: Console, stop: Stop) -> Exit:
    """Show a sweep file's plan and what stands in its way; the exit status.

    Problems that need no money to be found (a key that is not set, a retired model) do not keep the plan from
    being shown, a missing price does.
    """
    work, problems = prepare(path, choices, datetime.now(UTC))
    latencies: Latencies = {}
    status = Exit.COMPLETE
    if options.probe:
        from hab_ray.cli.probe import probe_sweep

        refuse_errors(problems)
        latencies, status = probe_sweep(work, options.probe, options.yes, _aside(options, console), stop)
    plan = make_plan(work, Store(open_folder(work.sweep.store)), latencies)
    if options.as_json:
        console.print_json(json.dumps(to_json(plan, problems, unheeded_settings(work))), ensure_ascii=True)
    else:
        print_plan(work.sweep, plan, problems, options, console)
        print_unheeded(unheeded_settings(work), console)
        if told := sample_told(work.sweep.responses, drawn_tests(work)):
            console.print(one_line(told), soft_wrap=True)
        console.print(_where_calls_are_made(work), soft_wrap=True)
    return Exit.CONFIGURATION if any(p.severity is Severity.ERROR for p in problems) else status


def _where_calls_are_made(work: Work) -> str:
    choice = choose_executor(work, os.environ)
    where = "by workers of Ray" if choice.executor == "ray" else "in the process of `hab run`"
    return f"online calls are made {where}: {choice.reason} (executor: {work.sweep.executor})"


def _aside(options: PlanOptions, console: Console) -> Console:
    """Where to say what is not the plan: beside it, where the plan is for a program to read."""
    return Terminal(stderr=True) if options.as_json else console
