"""`hab plan`: show what a sweep asks, costs and takes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated

import typer

from hab_ray.analysis.power import ASSUMED_READING_SD, SHIFT, Design, sentinels, shown_shift
from hab_ray.cli import options
from hab_ray.cli.ending import aside, console, ends_with_status, say
from hab_ray.cli.prepare import Choices, prepare
from hab_ray.cli.views.plan_view import print_long_plan, print_plan, to_json
from hab_ray.errors import Exit
from hab_ray.executors.choice import choose_executor
from hab_ray.given.sample import sample_told
from hab_ray.planning import make_plan
from hab_ray.planning.make import Latencies
from hab_ray.planning.preflight import Severity, refuse_errors, unheeded_settings
from hab_ray.work import Work, drawn_tests, given_tests


def _what_it_can_show(work: Work) -> Iterator[str]:
    """The smallest difference of subjects that the tests can show, and how many answers show a judge's drift."""
    subjects, select, given = len(work.sweep.subject_names), work.sweep.select, given_tests(work)
    sizes: dict[int, list[str]] = {}
    for dimension in work.rubrics:
        tests = len(given[dimension]) if dimension in given else select.tests if select else 0
        sizes.setdefault(tests, []).append(dimension.replace("_", " "))
    if subjects > 1:
        yield from (Design(subjects, tests).told(", ".join(named)) for tests, named in sizes.items() if tests)
    answers = subjects * sum(tests * len(named) for tests, named in sizes.items())
    yield _drift_shown(min(work.sweep.sentinels, answers))


def _drift_shown(number: int) -> str:
    """What shift of a judge so many sentinels show, or how many it would take."""
    if_alike = f"(if two readings of an answer differ by an SD of {ASSUMED_READING_SD})"
    if not number:
        return f"no judge is asked again: `sentinels: {sentinels()}` would show a shift of {SHIFT} {if_alike}"
    shift = shown_shift(number, ASSUMED_READING_SD)
    return f"a judge whose vendor changes it unseen: {number} sentinels show a shift of {shift:.3f} {if_alike}"


def _where_calls_are_made(work: Work) -> str:
    choice = choose_executor(work, os.environ)
    where = "by workers of Ray" if choice.executor == "ray" else "in the process of `hab run`"
    return f"online calls are made {where}: {choice.reason} (executor: {work.sweep.executor})"


@ends_with_status
def command(
    sweep: options.SweepArgument,
    subject: options.SubjectOption = None,
    judge: options.JudgeOption = None,
    model: options.ModelOption = None,
    run: options.RunOption = None,
    store: options.StoreOption = None,
    available_only: options.AvailableOption = False,
    executor: options.ExecutorOption = None,
    long: Annotated[
        bool, typer.Option("--long", help="Tokens, both prices, other budgets, and what so many tests can show too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The whole plan as JSON, by dimension too.")] = False,
    probe: Annotated[
        int, typer.Option(min=0, help="Send so many calls a stage, model and dimension first, to measure tokens.")
    ] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the probe costs without asking.")] = False,
) -> Exit:
    """Show what a sweep asks, costs and takes, and what stands in its way; nothing is sent but what --probe asks for.

    What a probe pays for is in the store: the run does not pay for it again. A key that is not set or a retired model
    ends with status 2 but hides no plan; a missing price does.
    """
    choices = Choices(model, run, store, tuple(subject or ()), tuple(judge or ()), available_only, executor)
    work, problems = prepare(sweep, choices, datetime.now(UTC))
    latencies: Latencies = {}
    status = Exit.COMPLETE
    if probe:
        from hab_ray.cli.probe import probe_sweep

        refuse_errors(problems)
        with aside() if as_json else nullcontext():
            latencies, status = probe_sweep(work, probe, yes)
    plan = make_plan(work, latencies)
    if as_json:
        console.print_json(json.dumps(to_json(plan, problems, unheeded_settings(work))), ensure_ascii=True)
    else:
        print_plan(work, plan, problems, console)
        if told := sample_told(work.sweep.responses, drawn_tests(work)):
            say(told)
    if long and not as_json:
        print_long_plan(work, plan, console)
        for told in (*_what_it_can_show(work), _where_calls_are_made(work)):
            say(told)
    return Exit.CONFIGURATION if any(p.severity is Severity.ERROR for p in problems) else status
