"""Runs a prepared work and writes its results: shared by `hab run` and `hab_ray.run`."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime

from hab_ray.analysis.summary import Summary, summarise
from hab_ray.errors import HabError, exit_of
from hab_ray.location import Location
from hab_ray.progress import PROGRESS, LastEnd, RunEnd, read_progress
from hab_ray.report import write_report, write_scores
from hab_ray.resolve import write_record
from hab_ray.results import open_run
from hab_ray.stopping import Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import SWEEP
from hab_ray.storage.simulated import note_simulators, refuse_simulated, simulated_notice
from hab_ray.sweep.options import Options
from hab_ray.sweep.reread import needs_rereading, reread_verdicts
from hab_ray.sweep.run import drive
from hab_ray.sweep.session import Say, spending
from hab_ray.work import Work

DEMO_NOTICES = {
    "smollm2-135m-instruct": (
        "A model of 135 million parameters cannot judge: these scores show that the machinery works and "
        "measure nothing."
    ),
    "qwen2.5-coder-1.5b-instruct": (
        "A coding model of 1.5 billion parameters judges here, all issues at once: its scores are near chance, and "
        "show how the steps work together. Asked of one issue at a time it ranked 11 of 12 hand-made pairs rightly."
    ),
}


def run_work(work: Work, options: Options, stop: Stop, say: Say, now: datetime) -> RunEnd:
    """Run a work, prepared at `now`, as far as it goes; call `say` about waits and changes before the run begins.

    Raises:
        ConfigError: the run's folder or store belongs to another run, or to a rehearsal.
        StoreHeld: another process holds the store.
        HabError: the run cannot continue; the drain has stored the replies of calls in flight.
    """
    refuse_simulated(work.sweep)
    with spending(work, stop, say) as session:
        session = session.fork_run() if options.new_id else session.adopt_id()
        if needs_rereading(session.work):
            reread_verdicts(session.work, say)
        write_record(session.work, now)
        session.register_run()
        session = session.with_api_versions()
        note_simulators(session.work.sweep)
        options.begun(session.work)
        return drive(session, options)


def write_results(work: Work) -> tuple[Summary, Location]:
    """Write a run's scores and report from its files; return the summary and the report's location."""
    summary = summarise(open_run(work.run_path))
    write_scores(summary)
    return summary, write_report(summary, notice=notice(work))


@contextmanager
def missing_results_reported(work: Work) -> Iterator[None]:
    """If the results of an ended run cannot be written, say how to write them, here and in the run's progress."""
    try:
        yield
    except Exception as error:
        remedy = f"its rows are stored, but its scores or report are not: `hab report {work.run_path}` writes them"
        folder = open_folder(work.run_path)
        with suppress(OSError, HabError):
            if not folder.exists(SWEEP):
                remedy = "the run was removed meanwhile; its replies are stored, so the same `hab run` makes it again"
        error.add_note(remedy)
        with suppress(OSError, ValueError):
            progress = read_progress(folder.get(PROGRESS))
            if progress.end:
                folder.put(PROGRESS, replace(progress, end=LastEnd(exit_of(error), remedy)).to_json())
        raise


def notice(work: Work) -> str | None:
    """Return a warning to show before the scores: a simulator answered, or the demo's judge cannot judge."""
    if simulated := simulated_notice(work.run_path):
        return simulated
    weights = {work.models[judge.model].entry.weights for judge in work.sweep.judges}
    return next((text for name, text in DEMO_NOTICES.items() if name in weights), None)
