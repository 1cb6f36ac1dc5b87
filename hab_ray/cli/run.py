"""`hab run`: read the sweep, take the lease, drive it, show what came out."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from hab_ray.cli.view import View
from hab_ray.config import Sweep, load_sweep
from hab_ray.errors import ConfigError, Exit
from hab_ray.progress import RunEnd
from hab_ray.report import leaderboard, write_report, write_scores
from hab_ray.resolve import hashes, read_record, resolve, write_record
from hab_ray.storage.lease import LocalLease
from hab_ray.sweep import UNANSWERED, Options, drive
from hab_ray.work import Work

SHOWN_UNANSWERED = 5
DEMO_NOTICE = (
    "A model of 135 million parameters cannot judge: these scores show that the machinery works and measure nothing."
)


@dataclass(frozen=True)
class RunOptions:
    """The options of `hab run`."""

    model: Path | None
    run: Path | None
    store: Path | None
    retry_failed: bool
    verbose: bool


def run_sweep(path: Path, options: RunOptions, console: Console) -> Exit:
    """Run a sweep file; the exit status."""
    sweep = _sweep(path, options)
    now = datetime.now(UTC)
    lease = LocalLease.acquire(sweep.store, str(sweep.run_folder), now)
    try:
        work = resolve(sweep, now)
        write_record(work, now)
        _announce(work, console)
        view = View(console)
        with view.shown():
            end = drive(work, lease, Options(options.retry_failed, options.verbose, view.update))
    finally:
        lease.release()
    _tell(work, end, console)
    show_results(work, console)
    return end.exit


def _sweep(path: Path, options: RunOptions) -> Sweep:
    changes = {key: str(value) for key, value in (("run", options.run), ("store", options.store)) if value}
    sweep = load_sweep(path, changes)
    if options.model is None:
        return sweep
    if not options.model.is_file():
        raise ConfigError(f"--model {options.model}: there is no such file; give the path of a .gguf file")
    return sweep.on_local_weights(options.model.resolve())


def _announce(work: Work, console: Console) -> None:
    sweep = work.sweep
    console.print(
        f"{sweep.name}: {len(work.rubrics)} dimensions, {len(sweep.subjects)} subjects, {len(sweep.judges)} "
        f"{'judge' if len(sweep.judges) == 1 else 'judges'}; run {sweep.run_folder}, store {sweep.store}"
    )
    if notice(work):
        console.print(notice(work), style="yellow")


def notice(work: Work) -> str | None:
    """What a reader must know before reading a score: the demo's judge cannot judge."""
    judges = {work.models[judge.model] for judge in work.sweep.judges}
    return DEMO_NOTICE if any(m.entry.weights == "smollm2-135m-instruct" for m in judges) else None


def _tell(work: Work, end: RunEnd, console: Console) -> None:
    for note in end.notes:
        console.print(f"note: {note}", style="yellow")
    for who, why in end.stops.items():
        console.print(f"{who} was stopped: {why}", style="red")
    if end.unanswered:
        _tell_unanswered(work, end, console)
    if end.exit is Exit.INTERRUPTED:
        console.print("interrupted; the same command goes on where this ended", style="yellow")
    console.print(f"{end.calls} calls sent, ${end.cost_nanousd / 1e9:.4f} paid")


def _tell_unanswered(work: Work, end: RunEnd, console: Console) -> None:
    by_file = Counter(row.file for row in end.unanswered)
    console.print(f"{len(end.unanswered)} rows are unanswered:", style="red")
    for file, count in sorted(by_file.items()):
        console.print(f"  {file}: {count}")
    for row in itertools.islice(end.unanswered, SHOWN_UNANSWERED):
        console.print(f"  {row.row_id}: {row.reason}", soft_wrap=True)
    console.print(f"all of them: {work.run_path / UNANSWERED}; the same command asks again", soft_wrap=True)


def show_results(work: Work, console: Console) -> None:
    """Write scores and report, print the leaderboard and where the report is."""
    scores = write_scores(work)
    report = write_report(work, scores, record=_record(work), notice=notice(work))
    console.print(leaderboard(scores))
    console.print(f"report: {report}", soft_wrap=True)


def _record(work: Work) -> dict[str, str]:
    """What stands under "settings" in the report."""
    shown = {f"sha256 of {name}": digest for name, digest in hashes(work).items()}
    shown |= {f"{name} as of": model.as_of for name, model in work.models.items() if model.as_of}
    record = read_record(work.run_path)
    if record:
        shown |= {"started": record.started.isoformat(timespec="seconds")}
        shown |= {f"version of {name}": version for name, version in record.versions.items()}
    return shown
