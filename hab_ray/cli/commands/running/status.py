"""`hab status`: show how far a run is.

A status is asked for again and again, by many and from afar: it takes three requests, for what the driver last reported
and for who holds the store. A run that no driver of this version has reported on is counted from its files.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Annotated

import typer
from rich.table import Table

from hab_ray.catalog.prices import NANO
from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.options import RunFolderArgument
from hab_ray.cli.views.terminal import print_cells
from hab_ray.cli.views.waiting import waiting_for_money
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.progress import PROGRESS, BudgetStatus, Progress, read_progress
from hab_ray.stages import ORDER, WITHOUT_VIEW
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import Holder, last_holder
from hab_ray.visible import counted, log_json, one_line

SILENT_AFTER_S = 60.0


@dataclass(frozen=True)
class Status:
    """A run as a status shows it. `driver` drives its store now, for this run or another one; `died` held it last
    and ended without giving it back.

    `problem` says why the last report could not be read; without a report `is_counted`, from the run's files.
    """

    run: Location
    store: Location
    progress: Progress
    driver: Holder | None
    died: Holder | None = None
    is_counted: bool = False
    problem: str | None = None

    @property
    def is_driven(self) -> bool:
        """Whether the process that holds the store drives this very run."""
        return self.driver is not None and self.store.follow(self.driver.run).is_same(self.run)


def read_status(run: Location) -> Status:
    """The status of a run, in at most three requests where its driver has reported.

    Raises:
        ConfigError: there is no run, or a newer version has written its store.
    """
    problem, progress, store = None, None, None
    try:
        progress = read_progress(open_folder(run).get(PROGRESS))
        store = Location.of(progress.store) if progress.store is not None else None
    except FileNotFoundError:
        pass
    except ValueError:
        progress = None
        problem = f"{run / PROGRESS} cannot be read; the next `hab run` writes it anew"
    is_counted = progress is None or store is None
    if progress is None or store is None:
        from hab_ray.cli.opening import counted, load_run

        work = load_run(run)
        store, progress = work.sweep.store, counted(work, progress)
    last = last_holder(open_folder(store))
    holder = last if last and not last.released else None
    if holder and store.follow(holder.run).is_same(run):
        progress = replace(progress, end=None)  # what is there is the end of an earlier process
    died = holder if holder and holder.is_known_dead() else None
    return Status(run, store, progress, None if died else holder, died, is_counted, problem)


def status_json(status: Status) -> str:
    """A status as JSON."""
    driver = status.driver
    by = driver and {"pid": driver.pid, "host": driver.host, "run": driver.run, "since": driver.since}
    return log_json({"run": str(status.run), "driver": by, **asdict(status.progress)})


def print_status(status: Status) -> None:
    """Print rows done and known by stage and model, who drives the store, and the driver's last words."""
    shown = Table("stage", "model", "done", "known", box=None, pad_edge=False)
    lines = [*status.progress.stages, *status.progress.computed]
    for line in sorted(lines, key=lambda one: ORDER.index(one.stage) if one.stage in ORDER else len(ORDER)):
        is_open = status.is_counted and line.stage in WITHOUT_VIEW
        shown.add_row(one_line(line.stage), one_line(line.model), "" if is_open else str(line.done), str(line.total))
    print_cells(shown, console)
    _tell_driver(status)
    _tell_batches(status)
    if status.problem:
        say(status.problem, "yellow")
    if status.progress.at:
        _tell_last(status.progress)
    _tell_end(status)


def _tell_driver(status: Status) -> None:
    holder, died = status.driver, status.died
    if died is not None:
        which = f"process {died.pid} on {died.host}, which held it for {status.store.follow(died.run)}"
        told = f"no process drives this store: {which} since {died.since}, has died; the next `hab run` takes it over"
        say(told, "yellow")
    elif holder is None:
        say("no process drives this store")
    else:
        since = f"for {status.store.follow(holder.run)}, since {holder.since}"
        say(f"store held by process {holder.pid} on {holder.host} {since}")


def _tell_batches(status: Status) -> None:
    batches = status.progress.batches
    if batches:
        say(
            f"batches at the vendors: {len(batches)} with {counted(sum(b.rows for b in batches), 'row')}, at most "
            f"${sum(b.nanousd for b in batches) / NANO:.4f}; `hab batches list {status.run}` shows each of this run"
        )


def _tell_money(money: BudgetStatus) -> None:
    unaccounted = f" (${money.stranded / NANO:.4f} of it stranded by unclean ends)" if money.stranded else ""
    say(
        f"budget ${money.budget / NANO:.4f}: ${money.spent / NANO:.4f} spent{unaccounted}, "
        f"${money.reserved / NANO:.4f} set aside for what is under way"
    )
    if money.assumption:
        say(f"likely budget: {money.assumption}")


def _tell_last(last: Progress) -> None:
    in_flight = sum(stage.in_flight for stage in last.stages)
    before = f" after ${last.earlier_nanousd / NANO:.4f} by earlier ones" if last.earlier_nanousd else ""
    say(
        f"last progress {last.at}: the newest process has sent {last.calls} calls ({in_flight} in flight) and paid "
        f"${last.cost_nanousd / NANO:.4f}{before}"
    )
    for provider, outage in last.outages.items():
        say(f"{provider}: {outage}", "yellow")
    if last.money:
        _tell_money(last.money)
    if waiting := waiting_for_money(last):
        say(waiting, "yellow")
    for note in last.notes:
        say(f"note: {note}", "yellow")


def _tell_end(status: Status) -> None:
    """How the last `hab run` ended, or that it has not been heard of for long."""
    end, last = status.progress.end, status.progress.at
    if end:
        told = f"the last `hab run` ended with exit status {end.status}: {end.meaning}"
    elif status.is_counted or (status.driver and _age_s(last) < SILENT_AFTER_S):
        return
    else:
        told = f"the last `hab run` has not reported since {last}; if it was killed, the same command goes on"
    say(told)


def _age_s(at: str) -> float:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return inf


@ends_with_status
def command(
    run: RunFolderArgument,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON, for a program to read.")] = False,
) -> Exit:
    """Show how far a run is, from its files alone; works while another process drives it.

    The JSON has the keys of log/progress.json, `run`, and `driver` (who drives the store; null where nobody does).
    Its `end` is {"status": exit status of the last `hab run`, "meaning": ...}, null while it runs or if it was killed.
    """
    status = read_status(run)
    if as_json:
        console.print_json(status_json(status), ensure_ascii=True)
    else:
        print_status(status)
    return Exit.COMPLETE
