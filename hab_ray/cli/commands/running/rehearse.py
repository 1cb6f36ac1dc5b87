"""`hab rehearse`: run a sweep against the simulator."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hab_ray.catalog.prices import NANO
from hab_ray.cli.ending import console, ends_with_status, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.options import SweepArgument
from hab_ray.cli.views.board import show_board
from hab_ray.cli.views.view import View
from hab_ray.config.sweep import load_sweep
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.planning.preflight import preflight, refuse_errors
from hab_ray.rehearse.perform import Rehearsal, perform
from hab_ray.rehearse.place import RehearsalPlace
from hab_ray.rehearse.profile import Play
from hab_ray.rehearse.staging import staged
from hab_ray.rehearse.trouble import Trouble, load_trouble
from hab_ray.report import write_report
from hab_ray.storage.simulated import NOTICE
from hab_ray.sweep.options import Options
from hab_ray.visible import counted
from hab_simulator import LognormalLatency, NoLatency

_SHOWN = 10


def _print_result(done: Rehearsal) -> None:
    end, meter = done.end, done.meter
    for note in (*end.notes, *(f"{who} was stopped: {why}" for who, why in end.stops.items())):
        say(f"note: {note}", "yellow")
    if end.unanswered:
        first = end.unanswered[0]
        count = counted(len(end.unanswered), "unanswered row")
        say(f"{count}, the first {first.file} {first.row_id}: {first.reason}", "red")
    say(
        f"{done.seconds:.0f} s, {end.calls:,} calls sent, {meter.received:,} received, {meter.billed:,} billed; "
        f"{meter.billed_more_than_once.bodies:,} bodies billed more than once, "
        f"{meter.lost_after_billing:,} replies lost after billing"
    )
    batch = meter.batch
    if batch.created:
        say(
            f"{counted(batch.created, 'batch', 'batches')} with {counted(batch.lines_received, 'line')}, "
            f"{batch.lines_billed:,} of them billed; failed: {batch.failed}, expired: {batch.expired}, cancelled: "
            f"{batch.cancelled}"
        )
    if meter.lost_after_billing:
        lost = f"lost: ${meter.lost_nanousd / NANO:.9f} in {meter.lost_after_billing:,} calls"
        say(f"{lost} that the meter billed and whose replies did not arrive")
    verdict = "the bills agree" if done.bills_agree else "the bills DIFFER"
    dollars = f"${end.cost_nanousd / NANO:.9f} by our books, ${meter.charged / NANO:.9f} by the meter"
    say(f"{dollars}: {verdict}", "" if done.bills_agree else "red")
    _print_comparison(done)


def _print_comparison(done: Rehearsal) -> None:
    found = done.comparison
    for what, means in (("cells", found.cells), ("overall means", found.overall)):
        right = sum(mean.recovered for mean in means)
        say(f"recovered {right:,} of {len(means):,} {what} exactly", _style(right == len(means)))
    for what, compared, wrong in (
        ("answers and verdicts", found.rows.compared, found.rows.wrong),
        ("ratings by people", found.people.compared, found.people.wrong),
        ("shifts, kappas and maps of judges now and then", found.bridge.compared, found.bridge.wrong),
    ):
        if compared or wrong:
            result = counted(len(wrong), "problem") if wrong else "all as planted"
            say(f"{compared:,} {what}: {result}", _style(not wrong))
    rows, people, bridge = found.rows.wrong, found.people.wrong, found.bridge.wrong
    for problems in (found.missing, found.findings, rows, found.wrong_cells, people, bridge):
        for problem in problems[:_SHOWN]:
            say(f"  {problem}")
        if len(problems) > _SHOWN:
            say(f"  and {len(problems) - _SHOWN:,} more")


def _style(right: bool) -> str:
    return "green" if right else "red"


@ends_with_status
def command(
    sweep: SweepArgument,
    run: Annotated[
        Location | None,
        typer.Option(parser=Location.of, metavar="PATH", help="The run's folder, instead of runs/rehearsal-<run>."),
    ] = None,
    store: Annotated[
        Location | None,
        typer.Option(parser=Location.of, metavar="PATH", help="The store, instead of one in the run's folder."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulator's answers and of the planted truth.")] = 0,
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
        trouble=load_trouble(faults) if faults else Trouble(),
        judge_error=judge_error,
    )
    now = datetime.now(UTC)
    rehearsed = load_sweep(sweep)
    place = RehearsalPlace.of(rehearsed, run, store)
    work = staged(rehearsed, place, now, turnaround)
    refuse_errors(preflight(work, {}, now.date()))
    sizes = f"{counted(len(work.rubrics), 'dimension')}, {counted(len(rehearsed.subjects), 'subject')}"
    judges = counted(len(rehearsed.judges), "judge")
    say(f"rehearsal of {rehearsed.name}: {sizes}, {judges}; run {place.run}, store {place.store}")
    view = View(console)
    with view.shown():
        done = perform(work, play, Options(verbose=verbose, watch=view.update), stop, warn, now)
    report = write_report(done.summary, notice=NOTICE)
    show_board(done.summary, console)
    say(f"report: {report}")
    _print_result(done)
    if done.end.exit is not Exit.COMPLETE:
        return done.end.exit
    return Exit.COMPLETE if done.passed else Exit.NOT_RECOVERED
