"""`hab status`: how far a run is, read from storage alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from hab_ray.engine.ledger import Batch, Ledger, Phase
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.prices import NANO
from hab_ray.resolve import load_work
from hab_ray.stages import table
from hab_ray.storage.folder import open_folder
from hab_ray.storage.format import refuse_newer
from hab_ray.storage.lease import last_holder
from hab_ray.storage.reach import reach
from hab_ray.storage.run import PROGRESS
from hab_ray.visible import one_line
from hab_ray.work import Work


def load_run(run: Location) -> Work:
    """The work of a run folder.

    Raises:
        ConfigError: there is no run, or a newer version has written its store.
    """
    reach(run)
    work = load_work(run, datetime.now(UTC))
    refuse_newer(reach(work.sweep.store), f"store {work.sweep.store}")
    return work


def open_run_with_store(run: Location) -> Work:
    """The work of a run folder, for commands that answer from its store.

    Raises:
        ConfigError: there is no run or no store, or a newer version has written the store.
    """
    work = load_run(run)
    if last_holder(open_folder(work.sweep.store)) is None:
        raise ConfigError(
            f"{run}: there is no folder {work.sweep.store}, which holds the run's store. Paths in a sweep are relative "
            "to the folder that `hab run` was given in: give this command there too"
        )
    return work


def batches_in_store(work: Work) -> list[Batch]:
    """All batches that a run's store has of the run's providers, this run's and others'."""
    folder = open_folder(work.sweep.store)
    providers = sorted({m.entry.provider for m in work.models.values()})
    return [batch for provider in providers for batch in Ledger(folder, provider).read()]


def show_status(run: Location, console: Console) -> Exit:
    """Print rows done and known by stage and model, who drives the run, and its last words."""
    work = load_run(run)
    done: dict[tuple[str, str], int] = defaultdict(int)
    known: dict[tuple[str, str], int] = defaultdict(int)
    for shard in work.shards():
        line, written = (shard.stage, shard.name), work.written(shard) or 0
        known[line] += len(work.tasks(shard)) if shard.spec.makes_calls else written
        done[line] += written
    shown = Table("stage", "model", "in files", "known", box=None, pad_edge=False)
    for stage, name in sorted(known, key=lambda line: list(table.STAGES).index(line[0])):
        in_files = str(done[stage, name]) if table.STAGES[stage].has_view else ""
        shown.add_row(stage, one_line(name), in_files, str(known[stage, name]))
    console.print(shown)
    _tell_driver(work, console)
    _tell_batches(work, console)
    _tell_progress(work, console)
    return Exit.COMPLETE


def _tell_driver(work: Work, console: Console) -> None:
    holder = last_holder(open_folder(work.sweep.store))
    if holder is None or holder.released:
        console.print("no process drives this store")
    else:
        run = work.sweep.store.follow(holder.run)
        since = f"for {run}, since {holder.since}"
        console.print(one_line(f"store held by process {holder.pid} on {holder.host} {since}"), soft_wrap=True)


def _tell_batches(work: Work, console: Console) -> None:
    batches = batches_in_store(work)
    waiting = [batch for batch in batches if batch.phase is not Phase.DONE]
    if batches:
        rows, paid = sum(b.intent.rows for b in waiting), sum(b.harvested.nanousd for b in batches if b.harvested)
        told = (
            f"batches in the store: {len(batches)}, open {len(waiting)} with {rows} rows; the others cost "
            f"${paid / 1e9:.4f}; `hab batches list {work.run_path}` shows each of this run"
        )
        console.print(one_line(told), soft_wrap=True)


def _tell_money(money: Mapping[str, int], console: Console) -> None:
    spent, stranded = money["spent"] / NANO, money.get("stranded", 0) / NANO
    unaccounted = f" (${stranded:.4f} of it stranded by unclean ends)" if stranded else ""
    console.print(
        f"budget ${money['budget'] / NANO:.4f}: ${spent:.4f} spent{unaccounted}, ${money['reserved'] / NANO:.4f} "
        "set aside for what is under way",
        soft_wrap=True,
    )


def _tell_progress(work: Work, console: Console) -> None:
    if not work.run.has(PROGRESS):
        return
    try:
        _tell_last(json.loads(work.run.folder.get(PROGRESS)), console)
    except (ValueError, TypeError, KeyError, AttributeError):
        damaged = f"{work.run_path / PROGRESS} cannot be read; the next `hab run` writes it anew"
        console.print(one_line(damaged), style="yellow", soft_wrap=True)


def _tell_last(last: Mapping[str, Any], console: Console) -> None:
    in_flight = sum(stage["in_flight"] for stage in last["stages"])
    dollars = last["cost_nanousd"] / 1e9
    told = f"last progress {last['at']}: {last['calls']} calls, {in_flight} in flight, ${dollars:.4f}"
    console.print(one_line(told), soft_wrap=True)
    if last.get("money"):
        _tell_money(last["money"], console)
    for note in last["notes"]:
        console.print(f"note: {one_line(note)}", style="yellow", soft_wrap=True)
