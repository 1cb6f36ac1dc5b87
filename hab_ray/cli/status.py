"""`hab status`: how far a run is, read from storage alone.

A status is asked for again and again, by many and from afar: it takes three requests, for what the driver last reported
and for who holds the store. A run that no driver of this version has reported on is counted from its files.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import inf

from rich.console import Console
from rich.table import Table

from hab_ray.cli.waiting import waiting_for_money
from hab_ray.engine.ledger import Batch, Ledger, Phase, batch_progress
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.prices import NANO
from hab_ray.progress import BudgetStatus, Progress, StageProgress, read_progress
from hab_ray.resolve import load_work, refuse_other_store
from hab_ray.stages import table
from hab_ray.storage.folder import open_folder
from hab_ray.storage.format import refuse_newer
from hab_ray.storage.lease import Holder, last_holder
from hab_ray.storage.reach import reach
from hab_ray.storage.run import PROGRESS
from hab_ray.visible import log_json, one_line
from hab_ray.work import Work

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


def load_run(run: Location) -> Work:
    """The work of a run folder.

    Raises:
        ConfigError: there is no run, or a newer version has written its store.
    """
    reach(run)
    work = load_work(run, datetime.now(UTC))
    refuse_newer(reach(work.sweep.store), f"store at {work.sweep.store}")
    return work


def open_run_with_store(run: Location) -> Work:
    """The work of a run folder, for commands that answer from its store.

    Raises:
        ConfigError: there is no run or no store, another store is at its path, or a newer version has written it.
    """
    work = load_run(run)
    if last_holder(open_folder(work.sweep.store)) is None:
        raise ConfigError(
            f"{run}: there is no folder {work.sweep.store}, which holds the run's store. Paths in a sweep are relative "
            "to the folder that `hab run` was given in: give this command there too"
        )
    refuse_other_store(work)
    return work


def batches_in_store(work: Work) -> list[Batch]:
    """All batches that a run's store has of the run's providers, this run's and others'."""
    folder = open_folder(work.sweep.store)
    providers = sorted({m.entry.provider for m in work.models.values()})
    return [batch for provider in providers for batch in Ledger(folder, provider).read()]


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
        work = load_run(run)
        store, progress = work.sweep.store, _counted(work, progress)
    last = last_holder(open_folder(store))
    holder = last if last and not last.released else None
    if holder and store.follow(holder.run).is_same(run):
        progress = replace(progress, end=None)  # what is there is the end of an earlier process
    died = holder if holder and holder.is_known_dead() else None
    return Status(run, store, progress, None if died else holder, died, is_counted, problem)


def _counted(work: Work, reported: Progress | None) -> Progress:
    """How far a run is by its files, beside what a driver of an older version has reported."""
    done: dict[tuple[str, str], int] = defaultdict(int)
    known: dict[tuple[str, str], int] = defaultdict(int)
    for shard in work.shards():
        line, written = (shard.stage, shard.name), work.written(shard) or 0
        known[line] += len(work.tasks(shard)) if shard.spec.makes_calls else written
        done[line] += written
    stages = tuple(StageProgress(stage, name, known[stage, name], done[stage, name], 0, 0) for stage, name in known)
    waiting = [batch for batch in batches_in_store(work) if batch.phase is not Phase.DONE]
    return Progress(
        at=reported.at if reported else "",
        elapsed_s=reported.elapsed_s if reported else 0.0,
        stages=stages,
        calls=reported.calls if reported else 0,
        retries=reported.retries if reported else 0,
        cost_nanousd=reported.cost_nanousd if reported else 0,
        notes=reported.notes if reported else (),
        money=reported.money if reported else None,
        batches=tuple(batch_progress(batch) for batch in waiting),
        store=str(work.sweep.store),
    )


def status_json(status: Status) -> str:
    """A status as JSON."""
    driver = status.driver
    told = {
        "run": str(status.run),
        "driver": driver and {"pid": driver.pid, "host": driver.host, "run": driver.run, "since": driver.since},
        **asdict(status.progress),
    }
    return log_json(told)


def print_status(status: Status, console: Console) -> None:
    """Print rows done and known by stage and model, who drives the store, and the driver's last words."""
    shown = Table("stage", "model", "done", "known", box=None, pad_edge=False)
    lines = [*status.progress.stages, *status.progress.computed]
    order = list(table.STAGES)
    for line in sorted(lines, key=lambda one: order.index(one.stage) if one.stage in order else len(order)):
        is_open = status.is_counted and not table.STAGES[line.stage].has_view
        shown.add_row(one_line(line.stage), one_line(line.model), "" if is_open else str(line.done), str(line.total))
    console.print(shown)
    _tell_driver(status, console)
    _tell_batches(status, console)
    if status.problem:
        console.print(one_line(status.problem), style="yellow", soft_wrap=True)
    if status.progress.at:
        _tell_last(status.progress, console)
    _tell_end(status, console)


def _tell_driver(status: Status, console: Console) -> None:
    holder, died = status.driver, status.died
    if died is not None:
        which = f"process {died.pid} on {died.host}, which held it for {status.store.follow(died.run)}"
        told = f"no process drives this store: {which} since {died.since}, has died; the next `hab run` takes it over"
        console.print(one_line(told), style="yellow", soft_wrap=True)
    elif holder is None:
        console.print("no process drives this store")
    else:
        since = f"for {status.store.follow(holder.run)}, since {holder.since}"
        console.print(one_line(f"store held by process {holder.pid} on {holder.host} {since}"), soft_wrap=True)


def _tell_batches(status: Status, console: Console) -> None:
    batches = status.progress.batches
    if batches:
        told = (
            f"batches at the vendors: {len(batches)} with {sum(b.rows for b in batches)} rows, at most "
            f"${sum(b.nanousd for b in batches) / NANO:.4f}; `hab batches list {status.run}` shows each of this run"
        )
        console.print(one_line(told), soft_wrap=True)


def _tell_money(money: BudgetStatus, console: Console) -> None:
    unaccounted = f" (${money.stranded / NANO:.4f} of it stranded by unclean ends)" if money.stranded else ""
    console.print(
        f"budget ${money.budget / NANO:.4f}: ${money.spent / NANO:.4f} spent{unaccounted}, "
        f"${money.reserved / NANO:.4f} set aside for what is under way",
        soft_wrap=True,
    )
    if money.assumption:
        console.print(one_line(f"likely budget: {money.assumption}"), soft_wrap=True)


def _tell_last(last: Progress, console: Console) -> None:
    in_flight = sum(stage.in_flight for stage in last.stages)
    before = f" after ${last.earlier_nanousd / NANO:.4f} by earlier ones" if last.earlier_nanousd else ""
    told = (
        f"last progress {last.at}: the newest process has sent {last.calls} calls ({in_flight} in flight) and paid "
        f"${last.cost_nanousd / NANO:.4f}{before}"
    )
    console.print(one_line(told), soft_wrap=True)
    for provider, outage in last.outages.items():
        console.print(one_line(f"{provider}: {outage}"), style="yellow", soft_wrap=True)
    if last.money:
        _tell_money(last.money, console)
    if waiting := waiting_for_money(last):
        console.print(waiting, style="yellow", soft_wrap=True)
    for note in last.notes:
        console.print(f"note: {one_line(note)}", style="yellow", soft_wrap=True)


def _tell_end(status: Status, console: Console) -> None:
    """How the last `hab run` ended, or that it has not been heard of for long."""
    end, last = status.progress.end, status.progress.at
    if end:
        told = f"the last `hab run` ended with exit status {end.status}: {end.meaning}"
    elif status.is_counted or (status.driver and _age_s(last) < SILENT_AFTER_S):
        return
    else:
        told = f"the last `hab run` has not reported since {last}; if it was killed, the same command goes on"
    console.print(one_line(told), soft_wrap=True)


def _age_s(at: str) -> float:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return inf
