"""`hab report`: rewrite a run's scores and report."""

from __future__ import annotations

from hab_ray.cli.ending import console, ends_with_status, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.opening import load_run
from hab_ray.cli.options import RunFolderArgument
from hab_ray.cli.views.board import show_board
from hab_ray.errors import Exit
from hab_ray.resolve import refuse_other_store
from hab_ray.stages.replies.reading import READER_VERSION
from hab_ray.storage.record import amend_record
from hab_ray.sweep.reread import needs_rereading, reread_verdicts
from hab_ray.sweep.session import spending
from hab_ray.sweep.start import write_results
from hab_ray.work import Work


def show_results(work: Work) -> None:
    """Write scores and report; print the leaderboard and the report's path."""
    summary, report = write_results(work)
    show_board(summary, console)
    say(f"report: {report}")


@ends_with_status
def command(run: RunFolderArgument) -> Exit:
    """Rewrite a run's scores and report from its files, and show the leaderboard."""
    work = load_run(run)
    if needs_rereading(work):
        refuse_other_store(work)
        with spending(work, stop, warn):
            reread_verdicts(work, warn)
            amend_record(work.run_path, reader_version=READER_VERSION)
    show_results(work)
    return Exit.COMPLETE
