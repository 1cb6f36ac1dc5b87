"""`hab plan`: show what a sweep asks, costs and takes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hab_ray.analysis.power import ASSUMED_READING_SD, SHIFT, Design, sentinels
from hab_ray.cli.ending import console, ends_with_status
from hab_ray.cli.interrupts import stop
from hab_ray.cli.options import (
    AvailableOption,
    ExecutorOption,
    JudgeOption,
    ModelOption,
    RunOption,
    StoreOption,
    SubjectOption,
    SweepArgument,
)
from hab_ray.cli.prepare import Choices, prepare
from hab_ray.cli.views.plan_view import PlanOptions, print_plan, print_unheeded, to_json
from hab_ray.cli.views.terminal import Terminal
from hab_ray.errors import Exit
from hab_ray.executors.choice import choose_executor
from hab_ray.given.sample import sample_told
from hab_ray.planning import make_plan
from hab_ray.planning.make import Latencies
from hab_ray.planning.preflight import Severity, refuse_errors, unheeded_settings
from hab_ray.stopping import Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import Store
from hab_ray.visible import one_line
from hab_ray.work import Work, drawn_tests, given_tests


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
        for told in _what_it_can_show(work):
            console.print(one_line(told), soft_wrap=True)
        console.print(_where_calls_are_made(work), soft_wrap=True)
    return Exit.CONFIGURATION if any(p.severity is Severity.ERROR for p in problems) else status


def _what_it_can_show(work: Work) -> Iterator[str]:
    """The smallest difference of subjects that the tests can show, and how many answers show a judge's drift."""
    subjects, select, given = len(work.sweep.subject_names), work.sweep.select, given_tests(work)
    sizes: dict[int, list[str]] = {}
    for dimension in work.rubrics:
        tests = len(given[dimension]) if dimension in given else select.tests if select else 0
        sizes.setdefault(tests, []).append(dimension.replace("_", " "))
    if subjects > 1:
        yield from (Design(subjects, tests).told(", ".join(named)) for tests, named in sizes.items() if tests)
    if work.sweep.judges:
        yield (
            f"a judge whose vendor changes it unseen: {sentinels()} answers judged again later show a shift of {SHIFT} "
            f"(if two readings of an answer differ by an SD of {ASSUMED_READING_SD})"
        )


def _where_calls_are_made(work: Work) -> str:
    choice = choose_executor(work, os.environ)
    where = "by workers of Ray" if choice.executor == "ray" else "in the process of `hab run`"
    return f"online calls are made {where}: {choice.reason} (executor: {work.sweep.executor})"


def _aside(options: PlanOptions, console: Console) -> Console:
    """Where to say what is not the plan: beside it, where the plan is for a program to read."""
    return Terminal(stderr=True) if options.as_json else console


@ends_with_status
def command(
    sweep: SweepArgument,
    subject: SubjectOption = None,
    judge: JudgeOption = None,
    model: ModelOption = None,
    run: RunOption = None,
    store: StoreOption = None,
    available_only: AvailableOption = False,
    executor: ExecutorOption = None,
    by_dimension: Annotated[bool, typer.Option("--by-dimension", help="A line for each dimension too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The whole plan as JSON.")] = False,
    probe: Annotated[
        int, typer.Option(min=0, help="Send so many calls a stage, model and dimension first, to measure tokens.")
    ] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the probe costs without asking.")] = False,
) -> Exit:
    """Show what a sweep asks, costs and takes, and what stands in its way; nothing is sent but what --probe asks for.

    What a probe pays for is in the store: the run does not pay for it again.
    """
    choices = Choices(model, run, store, tuple(subject or ()), tuple(judge or ()), available_only, executor)
    return show_plan(sweep, choices, PlanOptions(by_dimension, as_json, probe, yes), console, stop)
