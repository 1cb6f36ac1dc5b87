"""`hab rehearse`: run a sweep against the simulator."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hab_ray.catalog.prices import NANO
from hab_ray.cli.ending import console, ends_with_status, errors, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.options import SweepArgument, place_option
from hab_ray.cli.views.board import show_board
from hab_ray.cli.views.view import View
from hab_ray.config.sweep import load_sweep
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.planning.preflight import preflight
from hab_ray.planning.problems import refuse_errors
from hab_ray.rehearse.perform import Rehearsal, perform
from hab_ray.rehearse.profile import Play
from hab_ray.rehearse.staging import staged
from hab_ray.rehearse.trouble import Trouble, load_settings
from hab_ray.report import write_report
from hab_ray.storage.run import rehearsal_of
from hab_ray.storage.simulated import NOTICE
from hab_ray.sweep.options import Options
from hab_ray.visible import counted, one_line, usd
from hab_simulator import LognormalLatency, MeterReading, NoLatency

_SHOWN = 10


def _print_result(done: Rehearsal, notes: Sequence[str]) -> None:
    end, meter = done.end, done.meter
    for note in (*notes, *(f"{who} was stopped: {why}" for who, why in end.stops.items())):
        say(f"note: {note}", "yellow")
    if end.unanswered:
        first = end.unanswered[0]
        count = counted(len(end.unanswered), "unanswered row")
        say(f"{count}, the first {first.file} {first.row_id}: {first.reason}", "red")
    twice, asked = meter.billed_more_than_once.bodies, done.summary.settings
    if asked.samples * asked.replicates > 1:
        twice = 0  # the same request is asked for more than once, and the meter knows requests only
    billed = f"{counted(twice, 'call')} billed more than once" if twice else "no call was billed twice" * done.pays_once
    bill = f"simulated bill: {usd(meter.charged)}{'; the bills agree to the nano-dollar' * done.bills_agree}"
    sent = f"{done.seconds:.0f} s, {counted(end.calls, 'simulated call')} sent"
    say("; ".join(filter(None, (sent, _by_batch(meter), _online(meter), billed, bill))))
    if meter.lost_after_billing:
        lost = f"lost: ${meter.lost_nanousd / NANO:.9f} in {meter.lost_after_billing:,} calls"
        say(f"{lost} that the simulator billed and whose replies did not arrive")
    _print_comparison(done)


def _online(meter: MeterReading) -> str:
    return f"online {meter.received:,} received, {meter.billed:,} billed" if meter.received != meter.billed else ""


def _by_batch(meter: MeterReading) -> str:
    batch = meter.batch
    if not batch.created:
        return ""
    ends = {"failed": batch.failed, "expired": batch.expired, "cancelled": batch.cancelled}
    others = "".join(f", {count:,} {end}" for end, count in ends.items() if count)
    return (
        f"{counted(batch.created, 'batch', 'batches')}{others} with {counted(batch.lines_received, 'call')}, "
        f"{batch.lines_billed:,} billed"
    )


def _print_comparison(done: Rehearsal) -> None:
    found = done.comparison
    kinds = {"scores by dimension": found.cells, "overall": found.overall}
    parts = [f"{sum(mean.recovered for mean in means):,} of {len(means):,} {what}" for what, means in kinds.items()]
    for what, compared, wrong in (
        ("answers and verdicts", found.rows.compared, found.rows.wrong),
        ("ratings by people", found.people.compared, found.people.wrong),
        ("shifts, kappas and maps of judges now and then", found.bridge.compared, found.bridge.wrong),
    ):
        if compared or wrong:
            parts.append(f"{compared:,} {what}" + (f" ({counted(len(wrong), 'problem')})" if wrong else ""))
    are_wrong = any(found.problems.values())
    say(f"{', '.join(parts)}: {'not all' * are_wrong or 'all'} as planted", "red" if are_wrong else "green")
    for problems in found.problems.values():
        for problem in problems[:_SHOWN]:
            say(f"  {problem}")
        if len(problems) > _SHOWN:
            say(f"  and {len(problems) - _SHOWN:,} more")


def _verdict(done: Rehearsal, following: str) -> Exit:
    """Print last whether the rehearsal passed, on standard error if not; return its exit status."""
    if done.passed:
        say(f"passed; next: hab {following}", "green")
        return Exit.COMPLETE
    wrong = [f"{what} ({counted(len(found), 'problem')})" for what, found in done.comparison.problems.items() if found]
    if not done.bills_agree:
        ours, theirs = (f"${nano / NANO:.9f}" for nano in (done.end.cost_nanousd, done.arrived_nanousd))
        wrong.append(f"bills (our costs are {ours}, the simulator charged {theirs} for replies that arrived)")
    if not done.pays_once:
        ours, kept = (f"${nano / NANO:.9f}" for nano in (done.end.cost_nanousd, done.stored_nanousd))
        wrong.append(f"calls paid for more than once (our costs are {ours}, all replies in the store cost {kept})")
    if done.end.exit is not Exit.COMPLETE:
        wrong.append(f"the run is not complete ({done.end.exit.meaning})")
    failed = ", ".join(wrong) or "there was nothing to compare"
    errors.print(one_line(f"FAILED: {counted(max(1, len(wrong)), 'check')}: {failed}"), style="red", soft_wrap=True)
    return Exit.NOT_RECOVERED if done.end.exit is Exit.COMPLETE else done.end.exit


@ends_with_status
def command(
    sweep: SweepArgument,
    run: Annotated[Location | None, place_option("PATH", "The run's folder, instead of runs/rehearsal-<run>.")] = None,
    store: Annotated[Location | None, place_option("PATH", "The store, instead of one in the run's folder.")] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the simulator's answers and of the planted truth.")
    ] = 0,
    faults: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A YAML file of faults to simulate, e.g. jobs/nightmare.yaml.")
    ] = None,
    latency: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Mean latency of a reply.")] = 0.0,
    turnaround: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Turnaround of a batch.")] = 2.0,
    judge_error: Annotated[
        float,
        typer.Option(
            min=0, max=1, metavar="SHARE", help="Share of verdicts with a wrong letter; above 0 the check must fail."
        ),
    ] = 0.0,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show Ray's own messages.")] = False,
) -> Exit:
    """Run a sweep against the simulator, without keys or cost, and check that the planted truth is recovered exactly.

    Exit status: 0 if every answer, verdict, mean and interval is as planted, judges were shown everything they need,
    and our books agree with the simulator's meter; 1 if the sweep completed and any of these does not hold; else as
    for `hab run`.
    """
    play = Play(
        seed=seed,
        latency=LognormalLatency(mean_s=latency) if latency > 0 else NoLatency(),
        turnaround_s=turnaround,
        trouble=load_settings(Trouble, "--faults", faults),
        judge_error=judge_error,
    )
    now = datetime.now(UTC)
    rehearsed = load_sweep(sweep)
    run = run or rehearsal_of(rehearsed.run_folder)
    work = staged(rehearsed, run, now, store, turnaround)
    refuse_errors(preflight(work, {}, now.date()))
    sizes = f"{counted(len(work.rubrics), 'dimension')}, {counted(len(work.sweep.subject_names), 'subject')}"
    judges = counted(len(rehearsed.judges), "judge")
    replies = f", replies in {store}" if store else ""
    say(f"rehearsal of {rehearsed.name}: {sizes}, {judges}; run in {run}{replies}")
    if rehearsed.raters and not work.sweep.raters:
        warn(f"`raters:` is left out: nobody has rated this rehearsal's answers (`hab annotate sheet {run}`)")
    view = View(console)
    with view.shown():
        done = perform(work, play, Options(verbose=verbose, watch=view.update), stop, warn, now)
    report = write_report(done.summary, notice=NOTICE)
    show_board(done.summary, console)
    say(f"report: {report}")
    _print_result(done, view.unsaid(done.end.notes))
    following, of = ("agreement", run) if work.sweep.raters else ("plan", sweep)
    return _verdict(done, f"{following} {shlex.quote(str(of))}")
