"""`hab status`: show a run's progress.

Users poll it, often from other machines, so it takes three requests: for the driver's last report and for the holder of
the store. For a store with a relative path it also reads the record. After the end it also lists the files of results,
to notice lost ones. Without a report by a driver of this version it counts the run's files.
"""

import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Annotated

import typer
from rich.table import Table

from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.options import RunFolderArgument
from hab_ray.cli.views.terminal import print_cells
from hab_ray.cli.views.waiting import choosing, waiting_for_money
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.progress import PROGRESS, BudgetStatus, Progress, read_progress
from hab_ray.stages import ORDER, WITHOUT_VIEW
from hab_ray.storage.folder import open_folder, reach
from hab_ray.storage.lease.lease import Holder, describe, is_locked_here, last_holder
from hab_ray.storage.manifest import lost_notice
from hab_ray.visible import counted, log_json, one_line, usd

SILENT_AFTER_S = 60.0


@dataclass(frozen=True)
class Status:
    """A run's progress and the holder of its store.

    `driver` holds the store now, for this run or another one. `died` held it last and died without releasing it. Only a
    lock on this machine shows that. Any other holder that drives this run and has not reported for `SILENT_AFTER_S` is
    `silent`: `hab run`, which waits for a sign of life, finds out whether it lives.
    `is_counted` means that progress was counted from the run's files, because there is no report or, for the reason in
    `problem`, it could not be read. `lost` says which files of results are missing since the run's end.
    """

    run: Location
    store: Location
    progress: Progress
    driver: Holder | None
    died: Holder | None = None
    silent: Holder | None = None
    is_counted: bool = False
    problem: str | None = None
    lost: str | None = None

    @property
    def is_driven(self) -> bool:
        """Whether the process that holds the store drives this run."""
        return self.driver is not None and self.store.resolve(self.driver.run).is_same(self.run)


def read_status(run: Location) -> Status:
    """Read a run's status; raise ConfigError without a run, or if its store is in a bucket that does not answer."""
    problem, progress, store = None, None, None
    try:
        progress = read_progress(open_folder(run).get(PROGRESS))
        store = Location.of(progress.store) if progress.store is not None else None
    except FileNotFoundError:
        pass
    except ValueError:
        progress = None
        problem = f"{run / PROGRESS} cannot be read; the next `hab run` writes it again"
    is_counted = progress is None or store is None
    if progress is None or store is None:
        from hab_ray.cli.opening import load_run, progress_from_files

        work = load_run(run)
        store, progress = work.sweep.store, progress_from_files(work, progress)
    if store.is_local and not os.path.isabs(store.given):
        store = _recorded_store(run, store)
    last = last_holder(reach(store))
    holder = last if last and not last.released else None
    found = Status(run, store, progress, holder, is_counted=is_counted, problem=problem)
    if found.is_driven:
        found = replace(found, progress=replace(progress, end=None))  # the reported end is that of an earlier process
    lost = lost_notice(open_folder(run)) if found.progress.end else None
    return replace(_with_fate(found), lost=lost)


def _recorded_store(run: Location, store: Location) -> Location:
    """Return the store by its path from the run's folder, or `store` if both are the same or none is recorded there.

    `store` is relative to the folder of the latest start, which need not be this one.
    """
    from hab_ray.storage.record import read_record  # slow to import

    with suppress(ConfigError):
        if record := read_record(run):
            recorded = record.store_of(run)
            if not recorded.is_same(store) and last_holder(open_folder(recorded)):
                return recorded
    return store


def _with_fate(status: Status) -> Status:
    """Return the status with a holder that is dead or silent told from one that lives."""
    holder = status.driver
    is_locked = is_locked_here(status.store, holder) if holder else None
    if is_locked is False:
        return replace(status, driver=None, died=holder)
    is_unheard = holder is not None and min(_age_s(holder.since), _age_s(status.progress.at)) >= SILENT_AFTER_S
    if is_locked is None and is_unheard and status.is_driven:
        return replace(status, driver=None, silent=holder)
    return status


def status_json(status: Status) -> str:
    """Return a status as JSON."""
    driver = status.driver
    by = driver and {"pid": driver.pid, "host": driver.host, "run": driver.run, "since": driver.since}
    return log_json({"run": str(status.run), "driver": by, "lost": status.lost, **asdict(status.progress)})


def print_status(status: Status) -> None:
    """Print finished and known rows by stage and model, the holder of the store, and the driver's last report."""
    table = Table("stage", "model", "done", "of", box=None, pad_edge=False)
    lines = [*status.progress.stages, *status.progress.computed]
    for line in sorted(lines, key=lambda one: ORDER.index(one.stage) if one.stage in ORDER else len(ORDER)):
        is_open = status.is_counted and line.stage in WITHOUT_VIEW
        table.add_row(one_line(line.stage), one_line(line.model), "" if is_open else str(line.done), str(line.total))
    print_cells(table, console)
    end = status.progress.end
    if not status.is_counted and (end is None or end.status != Exit.COMPLETE):
        say("not complete: these are the rows known so far, and more may follow")
    _print_driver(status)
    if batches := status.progress.batches:
        say(
            f"batches at the vendors: {len(batches)} with {counted(sum(b.rows for b in batches), 'row')}, "
            f"{usd(sum(b.nanousd for b in batches))} reserved; `hab batches list {status.run}` shows those of this run"
        )
    for trouble in filter(None, (status.problem, status.lost)):
        say(trouble, "yellow")
    if status.progress.at:
        _print_last_report(status.progress)
    _print_end(status)


def _print_driver(status: Status) -> None:
    if (died := status.died) is not None:
        say(f"not running: {describe(status.store, died)}, has died; the next `hab run` resumes", "yellow")
    elif (silent := status.silent) is not None:
        say(
            f"it may have died: {describe(status.store, silent)}, holds the store but does not report; the next "
            "`hab run` waits for a sign of life, and resumes if there is none",
            "yellow",
        )
    elif (holder := status.driver) is None:
        say("not running")
    else:
        state = "running" if status.is_driven else "not running; the store is held by"
        say(f"{state}: {describe(status.store, holder)}")


def _print_money(money: BudgetStatus) -> None:
    stranded = f" ({usd(money.stranded)} of it stranded by unclean ends)" if money.stranded else ""
    say(
        f"budget {usd(money.budget)}: {usd(money.spent)} spent{stranded}, "
        f"{usd(money.reserved)} reserved for open calls and batches"
    )
    if money.assumption:
        say(f"likely budget: {money.assumption}")


def _print_last_report(last: Progress) -> None:
    in_flight = sum(stage.in_flight for stage in last.stages)
    earlier = f", and {usd(last.earlier_nanousd)} before" if last.earlier_nanousd else ""
    say(
        f"as of {last.at}: {counted(last.calls, 'call')} sent since the last start ({in_flight} in flight) "
        f"for {usd(last.cost_nanousd)}{earlier}"
    )
    if what := choosing(last):
        say(f"waits for {what}")
    for provider, outage in last.outages.items():
        say(f"{provider}: {outage}", "yellow")
    if last.money:
        _print_money(last.money)
    if waiting := waiting_for_money(last):
        say(waiting, "yellow")
    for note in last.notes:
        say(f"note: {note}", "yellow")


def _print_end(status: Status) -> None:
    end, last = status.progress.end, status.progress.at
    if end:
        say(f"the last `hab run` ended with exit status {end.status}: {end.meaning}")
    elif not status.is_counted and (status.driver is None or _age_s(last) >= SILENT_AFTER_S):
        say(f"the last `hab run` has not reported since {last}; if it was killed, the same command resumes the run")


def _age_s(at: str) -> float:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return inf


@ends_with_status
def command(
    run: RunFolderArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> Exit:
    """Show a run's progress from its files, also while another process drives it.

    The JSON has the keys of log/progress.json, `run`, `driver` (the process that holds the store; null if none does, or
    it has died or stopped reporting), and `lost` (which files of results are missing since the end, or null). Its
    `end` is {"status": exit status of the last `hab run`, "meaning": ...}, null while it runs or if it was killed.
    """
    status = read_status(run)
    if as_json:
        console.print_json(status_json(status), ensure_ascii=True)
    else:
        print_status(status)
    return Exit.COMPLETE
