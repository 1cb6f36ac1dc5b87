"""`hab report`: write a run's report; show its scores."""

from __future__ import annotations

from rich.console import Console

from hab_ray.cli.ending import console, ends_with_status
from hab_ray.cli.interrupts import stop
from hab_ray.cli.opening import load_run
from hab_ray.cli.options import RunFolderArgument
from hab_ray.cli.views.board import show_board
from hab_ray.cli.views.terminal import saying
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.resolve import refuse_other_store
from hab_ray.stages.replies.reading import READER_VERSION
from hab_ray.stopping import Stop
from hab_ray.storage.record import amend_record
from hab_ray.sweep.reread import needs_rereading, reread_verdicts
from hab_ray.sweep.session import spending
from hab_ray.sweep.start import write_results
from hab_ray.visible import one_line
from hab_ray.work import Work


def report_run(run: Location, console: Console, stop: Stop) -> Exit:
    """Write a run's scores and report again; one of an older version has its verdicts read again first."""
    work, say = load_run(run), saying(console)
    if needs_rereading(work):
        refuse_other_store(work)
        with spending(work, stop, say):
            reread_verdicts(work, say)
            amend_record(work.run_path, reader_version=READER_VERSION)
    show_results(work, console)
    return Exit.COMPLETE


def show_results(work: Work, console: Console) -> None:
    """Write scores and report, print the leaderboard and where the report is."""
    summary, report = write_results(work)
    show_board(summary, console)
    console.print(one_line(f"report: {report}"), soft_wrap=True)


@ends_with_status
def command(run: RunFolderArgument) -> Exit:
    """Write a run's scores and report again from its files, and show the leaderboard."""
    return report_run(run, console, stop)
