"""`hab plan`: show a sweep's calls, cost and time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from math import sqrt
from typing import Annotated

import typer

from hab_ray.analysis.power import ASSUMED_READING_SD, SHIFT, Design, distinct_groups, sentinels
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
from hab_ray.stages.wiring import sentinels_each
from hab_ray.storage.lease.takeover import held_notice
from hab_ray.visible import counted
from hab_ray.work import Work, drawn_tests, given_tests


def detectable_effects(work: Work) -> Iterator[str]:
    """Yield the smallest differences between subjects that the tests can show, and the judge drift sentinels can."""
    subjects, select, given = len(work.sweep.subject_names), work.sweep.select, given_tests(work)
    sizes: dict[tuple[int, int], list[str]] = {}
    for dimension in work.rubrics:
        own = given.get(dimension)
        tests = len(own) if own is not None else select.tests if select else 0
        calls = _generation_calls(work, tests) if own is None else len({test.own_call for test in own})
        sizes.setdefault((tests, calls), []).append(dimension.replace("_", " "))
    all_tests = sum(tests * len(named) for (tests, _), named in sizes.items())
    if subjects > 1:
        for (tests, calls), named in sizes.items():
            if tests:
                yield _describe(Design(subjects, calls), ", ".join(named), tests)
        designs = [Design(subjects, calls) for (_, calls), named in sizes.items() for _ in named]
        if len(designs) > 1 and all(design.calls for design in designs):
            yield _describe(Design.together(designs), "overall", all_tests)
    each = sentinels_each(work)
    read = [(subjects * min(each, tests), calls) for (tests, calls), named in sizes.items() for _ in named]
    yield _detectable_drift(sum(number for number, _ in read), sum(min(number, calls) for number, calls in read))


def _generation_calls(work: Work, tests: int) -> int:
    """Return from how many generation calls so many of the candidates come, on average over random choices."""
    generate = work.sweep.generate
    return distinct_groups(generate.candidates, generate.per_call, tests) if generate else tests


def _describe(design: Design, what: str, tests: int) -> str:
    return design.describe(what) if design.calls == tests else design.describe(what, "generation calls", tests=tests)


def _detectable_drift(number: int, calls: int) -> str:
    """Describe the shift of a judge that so many sentinels show, of tests from at most so many generation calls."""
    assumption = f"(if two readings of an answer differ by an SD of {ASSUMED_READING_SD})"
    if not number:
        return f"judge drift is not checked: `sentinels: {sentinels()}` would show a shift of {SHIFT} {assumption}"
    design = Design(2, calls, ASSUMED_READING_SD * sqrt(calls / number))
    shown = f"show a shift of {design.smallest:.3f} {assumption}" if design.can_show_any else "cannot show it"
    return f"if a vendor silently changes a judge: {counted(number, 'sentinel')} {shown}"


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
