"""`hab run`: read the sweep, take the lease, drive it, show what came out."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from hab_ray.analysis.summary import summarise
from hab_ray.cli.agree import ask_to_spend
from hab_ray.cli.board import show_board
from hab_ray.cli.identity import entered, identified, separated
from hab_ray.cli.leasing import lease_terms
from hab_ray.cli.opening import load_run
from hab_ray.cli.plan_view import PlanOptions, print_plan, print_unheeded
from hab_ray.cli.prepare import Choices, prepare
from hab_ray.cli.upgrade import needs_rereading, reread_verdicts
from hab_ray.cli.view import View
from hab_ray.engine.memory import spare_what_stays
from hab_ray.errors import Exit
from hab_ray.executors.api_versions import with_api_versions
from hab_ray.location import Location
from hab_ray.plan import make_plan
from hab_ray.preflight import Problem, Severity, refuse_errors, unheeded_settings
from hab_ray.prices import NANO
from hab_ray.progress import FailedRows, Progress, RunEnd
from hab_ray.report import write_report, write_scores
from hab_ray.resolve import keep_reader, refuse_other_store, write_record
from hab_ray.results import open_run
from hab_ray.stopping import DRAIN_S, Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import FAILED, UNANSWERED
from hab_ray.storage.simulated import note_simulators, refuse_simulated, simulated_notice
from hab_ray.storage.store import Store
from hab_ray.storage.takeover import acquire_lease
from hab_ray.sweep import Options, drive
from hab_ray.sweep.raters import PeopleAs
from hab_ray.visible import one_line
from hab_ray.work import Work

SHOWN_UNANSWERED = 5
DEMO_NOTICE = (
    "A model of 135 million parameters cannot judge: these scores show that the machinery works and measure nothing."
)


@dataclass(frozen=True)
class RunOptions:
    """How `hab run` goes about it: `yes` spends without asking, `new_id` makes a copied folder a run of its own.

    `drain_s` is what open calls get after a signal; where progress `is_logged`, it is not shown. `people` is
    what the run calls those who rated.
    """

    yes: bool = False
    retry_failed: bool = False
    detach: bool = False
    verbose: bool = False
    new_id: bool = False
    drain_s: float = DRAIN_S
    is_logged: bool = False
    people: PeopleAs = PeopleAs.PSEUDONYMS


def run_sweep(path: Path, choices: Choices, options: RunOptions, console: Console, stop: Stop) -> Exit:
    """Run a sweep file; the exit status."""
    now = datetime.now(UTC)
    work, problems = prepare(path, choices, now)
    spare_what_stays()
    for problem in problems:
        if problem.severity is Severity.WARNING:
            console.print(one_line(str(problem)), style="yellow", soft_wrap=True)
    refuse_errors(problems)
    _agree_to_spend(work, problems, options, console)
    refuse_simulated(work.sweep)
    lease = acquire_lease(work.sweep.store, work.run_path, now, lease_terms(work, console))
    view = View(console)
    try:
        with stop.last_words(lease.release), stop.last_words(view.leave):
            work = separated(work) if options.new_id else identified(work)
            if needs_rereading(work):
                reread_verdicts(work, console)
            write_record(work, now)
            entered(work, now)
            work = asyncio.run(with_api_versions(work, open_folder(work.sweep.store)))
            note_simulators(work.sweep)
            _announce(work, console)
            with view.shown():
                end = drive(work, lease, _driving(options, view, stop))
    finally:
        lease.release()
    _tell(work, end, console)
    if end.exit is not Exit.INTERRUPTED:
        show_results(work, console)
    return end.exit


def _driving(options: RunOptions, view: View, stop: Stop) -> Options:
    return Options(
        retry_failed=options.retry_failed,
        detach=options.detach,
        people=options.people,
        verbose=options.verbose,
        watch=_unwatched if options.is_logged else view.update,
        stop=stop,
        drain_s=options.drain_s,
    )


def _unwatched(progress: Progress) -> None:
    pass


def _agree_to_spend(work: Work, problems: list[Problem], options: RunOptions, console: Console) -> None:
    """Show the plan of a sweep that costs money and ask; `--yes` answers beforehand.

    Raises:
        ConfigError: nobody is there to answer.
        Interrupted: the answer was no.
    """
    if options.yes or all(m.entry.price and m.entry.price.is_free for m in work.models.values()):
        return
    plan = make_plan(work, Store(open_folder(work.sweep.store)))
    print_plan(work.sweep, plan, problems, PlanOptions(), console)
    print_unheeded(unheeded_settings(work), console)
    if plan.total.to_pay == 0:
        return
    ask_to_spend("this sweep", console)


def _announce(work: Work, console: Console) -> None:
    sweep = work.sweep
    times = f" (each answer {sweep.replicates} times)" if sweep.replicates > 1 else ""
    told = (
        f"{sweep.name}: {len(work.rubrics)} dimensions, {len(sweep.subjects)} subjects, {len(sweep.judges)} "
        f"{'judge' if len(sweep.judges) == 1 else 'judges'}{times}; run {sweep.run_folder}, store {sweep.store}"
    )
    console.print(one_line(told), soft_wrap=True)
    if notice(work):
        console.print(notice(work), style="yellow")


def notice(work: Work) -> str | None:
    """What a reader must know before reading a score: a simulator answered, or the demo's judge cannot judge."""
    if told := simulated_notice(work.run_path):
        return told
    judges = {work.models[judge.model] for judge in work.sweep.judges}
    return DEMO_NOTICE if any(m.entry.weights == "smollm2-135m-instruct" for m in judges) else None


def _tell(work: Work, end: RunEnd, console: Console) -> None:
    for note in end.notes:
        console.print(f"note: {one_line(note)}", style="yellow", soft_wrap=True)
    for who, why in end.stops.items():
        console.print(f"{one_line(who)} was stopped: {one_line(why)}", style="red", soft_wrap=True)
    if end.unanswered:
        _tell_unanswered(work, end, console)
    for rows in end.failed:
        _tell_failed(rows, console)
    if end.failed:
        console.print(one_line(f"each failed row: {work.run_path / FAILED}"), soft_wrap=True)
    for who in end.without_ok:
        console.print(one_line(who), style="red", soft_wrap=True)
    if end.cut:
        _tell_cut(end, console)
    if end.exit is Exit.INTERRUPTED:
        console.print("interrupted; the same command goes on where this ended", style="yellow")
    if end.batches:
        _tell_batches(work, end, console)
    console.print(f"{end.calls} calls sent, ${end.cost_nanousd / 1e9:.4f} paid")


def _tell_failed(rows: FailedRows, console: Console) -> None:
    reasons = "; ".join(f"{count:,} times {one_line(reason)}" for reason, count in rows.reasons)
    console.print(
        f"{rows.stage}: {rows.count:,} rows of {one_line(rows.name)} have failed and are not asked again: {reasons}. "
        "Once the cause is mended, the same command with --retry-failed asks them",
        style="red",
        markup=False,
        soft_wrap=True,
    )


def _tell_cut(end: RunEnd, console: Console) -> None:
    """What was in flight and may be paid for twice: the online window of the documentation."""
    calls = ", ".join(f"{count} of {model}" for model, count in sorted(end.cut.items()))
    console.print(
        f"{sum(end.cut.values())} open calls were cut off ({calls}). The vendors may charge for them: they count as "
        f"spent with at most ${end.cut_nanousd / NANO:.4f}, and the same command asks them again.",
        style="yellow",
        markup=False,
        soft_wrap=True,
    )


def _tell_batches(work: Work, end: RunEnd, console: Console) -> None:
    rows, dollars = sum(b.rows for b in end.batches), sum(b.nanousd for b in end.batches) / 1e9
    console.print(
        f"{len(end.batches)} batches with {rows} rows stay at the vendors, which go on and charge for them (at most "
        f"${dollars:.4f}). The same command collects them; `hab batches cancel {work.run_path}` ends them.",
        style="yellow",
        soft_wrap=True,
    )


def _tell_unanswered(work: Work, end: RunEnd, console: Console) -> None:
    by_file = Counter(row.file for row in end.unanswered)
    console.print(f"{len(end.unanswered)} rows are unanswered:", style="red")
    for file, count in sorted(by_file.items()):
        console.print(f"  {one_line(file)}: {count}", soft_wrap=True)
    for row in itertools.islice(end.unanswered, SHOWN_UNANSWERED):
        console.print(f"  {one_line(row.row_id)}: {one_line(row.reason)}", soft_wrap=True)
    console.print(one_line(f"all of them: {work.run_path / UNANSWERED}; the same command asks again"), soft_wrap=True)


def report_run(run: Location, console: Console) -> Exit:
    """Write a run's scores and report again; one of an older version has its verdicts read again first."""
    work = load_run(run)
    if needs_rereading(work):
        refuse_other_store(work)
        now = datetime.now(UTC)
        lease = acquire_lease(work.sweep.store, work.run_path, now, lease_terms(work, console))
        try:
            reread_verdicts(work, console)
            keep_reader(work)
        finally:
            lease.release()
    show_results(work, console)
    return Exit.COMPLETE


def show_results(work: Work, console: Console) -> None:
    """Write scores and report, print the leaderboard and where the report is."""
    summary = summarise(open_run(work.run_path))
    write_scores(summary)
    report = write_report(summary, notice=notice(work))
    show_board(summary, console)
    console.print(one_line(f"report: {report}"), soft_wrap=True)
