"""`hab run`: run a sweep, or resume it."""

import logging
import os
import re
import shlex
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from hab_ray.cli.commands.reading.report import show_results
from hab_ray.cli.ending import ask_to_spend, console, ends_with_status, errors, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.job import drain_s, stop_notice
from hab_ray.cli.options import SweepArgument
from hab_ray.cli.prepare import Choices, RunChoices, prepare
from hab_ray.cli.views.json_log import log_as_json, name_run
from hab_ray.cli.views.plan_view import print_plan
from hab_ray.cli.views.view import View
from hab_ray.engine.budget.client import BUDGET_REACHED
from hab_ray.engine.memory import freeze_gc
from hab_ray.errors import Exit
from hab_ray.planning import make_plan
from hab_ray.planning.problems import Problem, Severity, refuse_errors
from hab_ray.progress import RowReason, RunEnd
from hab_ray.stopping import DRAIN_S
from hab_ray.storage.lease.takeover import refuse_held
from hab_ray.storage.run import FAILED, UNANSWERED
from hab_ray.sweep.monitoring.log import LOG
from hab_ray.sweep.options import Options
from hab_ray.sweep.start import missing_results_reported, notice, run_work
from hab_ray.visible import counted, for_unanswered, usd
from hab_ray.work import Work

SHOWN_REASONS = 5
_WITH_NUMBER = re.compile(r"\S*\d\S*")


def run_sweep(path: Path, choices: Choices, driving: Options, *, yes: bool) -> Exit:
    """Run a sweep file; return the exit status. `yes` spends without asking. There is no live view with a JSON log."""
    now = datetime.now(UTC)
    work, problems = prepare(path, choices, now, driving.failures_since)
    name_run(str(work.sweep.run_folder))
    if not yes:
        refuse_held(work.sweep.store, work.run_path)
    freeze_gc()
    for problem in problems:
        if problem.severity is Severity.WARNING:
            say(str(problem), "yellow")
    refuse_errors(problems)
    if not yes:
        _confirm_cost(work, problems, driving)
    view = View(console)
    driving = replace(driving, begun=_print_start)
    if not LOG.isEnabledFor(logging.INFO):
        driving = replace(driving, watch=view.update)
    with view.shown(), stop.last_words(view.leave):
        end = run_work(work, driving, stop, warn, now)
    _print_end(work, replace(end, notes=view.unsaid(end.notes)))
    if end.exit is not Exit.INTERRUPTED:
        with missing_results_reported(work):
            show_results(work)
    if end.exit is Exit.PENDING:
        warn(end.exit.meaning)
    elif end.exit is Exit.BUDGET:
        warn(_budget_reached(path, work, end))
    return end.exit


def _confirm_cost(work: Work, problems: list[Problem], options: Options) -> None:
    if all(m.entry.price and m.entry.price.is_free for m in work.models.values()):
        return
    plan = make_plan(work, failures_since=options.failures_since)
    print_plan(work, plan, problems, console)
    if plan.total.to_pay:
        ask_to_spend("this sweep")


def _print_start(work: Work) -> None:
    sweep = work.sweep
    times = f" (each answer {sweep.replicates} times)" if sweep.replicates > 1 else ""
    say(
        f"{sweep.name}: {counted(len(work.rubrics), 'dimension')}, {counted(len(sweep.subject_names), 'subject')}, "
        f"{counted(len(sweep.judges), 'judge')}{times}; run in {sweep.run_folder}, replies in {sweep.store}"
    )
    if text := notice(work):
        warn(text)


def _print_end(work: Work, end: RunEnd) -> None:
    for note in end.notes:
        say(f"note: {note}", "yellow")
    for who, why in end.stops.items():
        say(f"{who} was stopped: {why}", "red")
    if end.unanswered:
        _print_unanswered(work, end)
    for rows in end.failed:
        say(str(rows), "red")
    if end.failed:
        say(f"each failed row: {work.run_path / FAILED}")
    for who in end.without_ok:
        say(who, "red")
    if end.cut:
        _print_cut(end)
    if end.exit is Exit.INTERRUPTED:
        say(Exit.INTERRUPTED.meaning, "yellow")
    if end.batches:
        _print_batches(work, end)
    say(sent_and_paid(end))


def _budget_reached(path: Path, work: Work, end: RunEnd) -> str:
    key = "`usd` of `budget`" if work.sweep.budget else "`budget_usd`"
    spent = f": {usd(end.money.spent)} of {usd(end.money.budget)} spent" if end.money else ""
    file = shlex.quote(str(path))
    amount = f"`hab plan {file}` with the same options says to how much"
    return f"{BUDGET_REACHED}{spent}; raise {key} in the sweep file ({amount}), then repeat the same command"


def sent_and_paid(end: RunEnd) -> str:
    """Return what this process sent and paid. Batch results are paid for when they are collected."""
    paid, lost = f"{usd(end.cost_nanousd)} paid", for_unanswered(end.lost_nanousd)
    if end.cost_nanousd and not end.calls:
        return f"{paid} for collected batch results{lost}; no new calls were sent"
    return f"{counted(end.calls, 'call')} sent, {paid}{lost}"


def _print_cut(end: RunEnd) -> None:
    calls = ", ".join(f"{count} of {model}" for model, count in sorted(end.cut.items()))
    say(
        f"cut off: {counted(sum(end.cut.values()), 'open call')} ({calls}). The vendors may charge for them: they "
        f"count as spent with at most {usd(end.cut_nanousd)}, and the same command sends them again.",
        "yellow",
    )


def _print_batches(work: Work, end: RunEnd) -> None:
    rows, reserved = sum(b.rows for b in end.batches), usd(sum(b.nanousd for b in end.batches))
    say(
        f"still at the vendors, which complete and charge them: {counted(len(end.batches), 'batch', 'batches')} with "
        f"{counted(rows, 'row')} ({reserved} reserved). The same command collects the results; `hab batches "
        f"cancel {work.run_path}` cancels them.",
        "yellow",
    )


def _print_unanswered(work: Work, end: RunEnd) -> None:
    kinds = Counter(row.file.split("/")[0] for row in end.unanswered)
    listed = ", ".join(f"{count:,} in {kind}/" for kind, count in sorted(kinds.items()))
    say(f"unanswered: {counted(len(end.unanswered), 'row')} ({listed})", "red")
    by_reason: dict[str, list[RowReason]] = defaultdict(list)
    for row in end.unanswered:
        by_reason[_WITH_NUMBER.sub("#", row.reason)].append(row)
    for rows in sorted(by_reason.values(), key=len, reverse=True)[:SHOWN_REASONS]:
        say(f"  {counted(len(rows), 'row')}, the first {rows[0].row_id}: {rows[0].reason}")
    in_batches = "collects those that are in a batch at a vendor, and sends the others again"
    then = "" if end.exit is Exit.BUDGET else f"; the same command {in_batches if end.batches else 'sends them again'}"
    say(f"all of them: {work.run_path / UNANSWERED}{then}")


@ends_with_status
def command(
    sweep: SweepArgument,
    *,
    choices: RunChoices,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the plan says without asking.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Send calls again that failed permanently.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Submit all batches, then exit; run again to collect the results.")
    ] = False,
    new_id: Annotated[
        bool, typer.Option("--new-id", help="Make a copied run folder a new run, which has spent nothing yet.")
    ] = False,
    drain: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help=f"Seconds to wait for open calls after Ctrl-C or SIGTERM. Default: {DRAIN_S:g}; in a Ray job at most "
            "what RAY_JOB_STOP_WAIT_TIME_S allows.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[
        bool,
        typer.Option("--names", help="Keep the names of the people in `raters:` instead of rater-1, rater-2 ..."),
    ] = False,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Print text for people, or one JSON object per line.")
    ] = "text",
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show Ray's own messages and tracebacks.")] = False,
) -> Exit:
    """Run a sweep as far as possible; the same command resumes it.

    Ctrl-C or SIGTERM: send nothing new and wait for open calls (--drain). A second one exits at once.

    Exit status: 0 complete, 2 configuration, 3 batches are still at the vendors, 4 budget reached, 5 rows
    unanswered because of failures, 6 store held by another driver, 7 the engine failed (a process died, the
    disk is full, a file is damaged) and the same command resumes, 130 interrupted.
    """
    if log_format == "json":
        log_as_json(console, errors)
    if drain is None:
        drain = drain_s(os.environ)
        if warning := stop_notice(os.environ, drain):
            warn(warning)
    driving = Options(
        new_id=new_id,
        retry_failed=retry_failed,
        detach=detach,
        with_names=names,
        verbose=verbose,
        drain_s=drain,
    )
    return run_sweep(sweep, choices, driving, yes=yes)
