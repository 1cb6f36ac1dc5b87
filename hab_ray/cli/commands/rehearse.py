"""`hab rehearse`: run a sweep against the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hab_ray.catalog.prices import NANO
from hab_ray.cli.ending import console, ends_with_status
from hab_ray.cli.interrupts import stop
from hab_ray.cli.options import RehearsalOption, RehearsalStoreOption, SweepArgument
from hab_ray.cli.views.board import show_board
from hab_ray.cli.views.terminal import saying
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
from hab_ray.stopping import Stop
from hab_ray.storage.simulated import NOTICE
from hab_ray.sweep.options import Options
from hab_ray.visible import counted, one_line
from hab_simulator import LognormalLatency, NoLatency

_SHOWN = 10


@dataclass(frozen=True)
class RehearseOptions:
    """What the command line says of a rehearsal. `latency` is the mean of a reply's time in seconds, 0 = at once;
    `turnaround` a batch's time in seconds.
    """

    run: Location | None = None
    store: Location | None = None
    seed: int = 0
    faults: Path | None = None
    latency: float = 0.0
    turnaround: float = 2.0
    judge_error: float = 0.0
    verbose: bool = False

    def play(self) -> Play:
        """How the simulator plays.

        Raises:
            ConfigError: the file of faults cannot be used.
        """
        return Play(
            seed=self.seed,
            latency=LognormalLatency(mean_s=self.latency) if self.latency > 0 else NoLatency(),
            turnaround_s=self.turnaround,
            trouble=load_trouble(self.faults) if self.faults else Trouble(),
            judge_error=self.judge_error,
        )


def rehearse_sweep(path: Path, options: RehearseOptions, console: Console, stop: Stop) -> Exit:
    """Rehearse a sweep file; 0 only if every row and mean was recovered and the bills agree, 1 if they were not."""
    now = datetime.now(UTC)
    sweep = load_sweep(path)
    place = RehearsalPlace.of(sweep, options.run, options.store)
    work = staged(sweep, place, now, options.turnaround)
    refuse_errors(preflight(work, {}, now.date()))
    told = (
        f"rehearsal of {sweep.name}: {len(work.rubrics)} dimensions, {len(sweep.subjects)} subjects, "
        f"{len(sweep.judges)} judges; run {place.run}, store {place.store}"
    )
    console.print(one_line(told), soft_wrap=True)
    view = View(console)
    driving = Options(verbose=options.verbose, watch=view.update)
    with view.shown():
        done = perform(work, options.play(), driving, stop, saying(console), now)
    report = write_report(done.summary, notice=NOTICE)
    show_board(done.summary, console)
    console.print(one_line(f"report: {report}"), soft_wrap=True)
    _tell(done, console)
    if done.end.exit is not Exit.COMPLETE:
        return done.end.exit
    return Exit.COMPLETE if done.passed else Exit.NOT_RECOVERED


def _tell(done: Rehearsal, console: Console) -> None:
    end, meter = done.end, done.meter
    for note in (*end.notes, *(f"{who} was stopped: {why}" for who, why in end.stops.items())):
        console.print(f"note: {one_line(note)}", style="yellow", soft_wrap=True)
    if end.unanswered:
        first = end.unanswered[0]
        told = f"{len(end.unanswered)} rows are unanswered, the first {first.file} {first.row_id}: {first.reason}"
        console.print(one_line(told), style="red", soft_wrap=True)
    console.print(
        f"{done.seconds:.0f} s, {end.calls:,} calls sent, {meter.received:,} received, {meter.billed:,} billed; "
        f"{meter.billed_more_than_once.bodies:,} bodies billed more than once, "
        f"{meter.lost_after_billing:,} replies lost after billing",
        soft_wrap=True,
    )
    batch = meter.batch
    if batch.created:
        console.print(
            f"{counted(batch.created, 'batch', 'batches')} with {counted(batch.lines_received, 'line')}, "
            f"{batch.lines_billed:,} of them billed; failed: {batch.failed}, expired: {batch.expired}, cancelled: "
            f"{batch.cancelled}",
            soft_wrap=True,
        )
    if meter.lost_after_billing:
        lost = f"lost: ${meter.lost_nanousd / NANO:.9f} in {meter.lost_after_billing:,} calls"
        console.print(f"{lost}, billed by the meter, whose replies did not arrive", soft_wrap=True)
    verdict = "the bills agree" if done.bills_agree else "the bills DIFFER"
    dollars = f"${end.cost_nanousd / NANO:.9f} by our books, ${meter.charged / NANO:.9f} by the meter"
    console.print(f"{dollars}: {verdict}", style="" if done.bills_agree else "red", soft_wrap=True)
    _tell_cells(done, console)


def _tell_cells(done: Rehearsal, console: Console) -> None:
    found = done.comparison
    for what, means in (("cells", found.cells), ("overall means", found.overall)):
        right = sum(mean.recovered for mean in means)
        style = "green" if right == len(means) else "red"
        console.print(f"recovered {right:,} of {len(means):,} {what} exactly", style=style)
    rows = found.rows
    told = f"{len(rows.wrong):,} problems among them" if rows.wrong else "all as planted"
    console.print(f"{rows.compared:,} answers and verdicts: {told}", style="red" if rows.wrong else "green")
    people = found.people
    if people.ratings or people.wrong:
        told = f"{len(people.wrong):,} problems with them" if people.wrong else "all as planted"
        console.print(f"{people.ratings:,} ratings by people: {told}", style="red" if people.wrong else "green")
    if found.bridge.lines or found.bridge.wrong:
        told = f"{len(found.bridge.wrong):,} problems with them" if found.bridge.wrong else "all as planted"
        console.print(
            f"{found.bridge.lines:,} shifts, kappas and maps of judges now and then: {told}",
            style="red" if found.bridge.wrong else "green",
        )
    every = (found.missing, found.findings, found.rows.wrong, found.wrong_cells, people.wrong, found.bridge.wrong)
    for wrong in every:
        for each in wrong[:_SHOWN]:
            console.print(f"  {one_line(str(each))}", soft_wrap=True)
        if len(wrong) > _SHOWN:
            console.print(f"  and {len(wrong) - _SHOWN:,} more")


@ends_with_status
def command(
    sweep: SweepArgument,
    run: RehearsalOption = None,
    store: RehearsalStoreOption = None,
    seed: Annotated[int, typer.Option(help="What the simulator's answers and the planted truth are drawn from.")] = 0,
    faults: Annotated[
        Path | None, typer.Option(help="A YAML file of what goes wrong, e.g. jobs/nightmare.yaml.")
    ] = None,
    latency: Annotated[float, typer.Option(min=0, help="The mean time of a reply in seconds; 0 = at once.")] = 0.0,
    turnaround: Annotated[float, typer.Option(min=0, help="The time of a batch in seconds.")] = 2.0,
    judge_error: Annotated[
        float, typer.Option(min=0, max=1, help="The share of verdicts with one letter wrong: the check must fail.")
    ] = 0.0,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show Ray's own messages too.")] = False,
) -> Exit:
    """Run a sweep against the simulator: no key, nothing paid; did the planted truth come back exactly?

    Exit status: 0 only if every answer, verdict, mean and interval is as planted, judges were shown all that they need,
    and our books agree with the simulator's meter; 1 if the sweep ended otherwise; else as `hab run`.
    """
    options = RehearseOptions(run, store, seed, faults, latency, turnaround, judge_error, verbose)
    return rehearse_sweep(sweep, options, console, stop)
