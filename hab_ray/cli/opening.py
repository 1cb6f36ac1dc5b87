"""Opens run folders for the commands that look at a run: its work, its batches, and how far it is by its files."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

from hab_ray.engine.ledger import Batch, Ledger, Phase, batch_progress
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.progress import Progress, StageProgress
from hab_ray.resolve import load_work, refuse_other_store
from hab_ray.storage.folder import open_folder
from hab_ray.storage.format import refuse_newer
from hab_ray.storage.lease.lease import last_holder
from hab_ray.storage.reach import reach
from hab_ray.work import Work


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


def counted(work: Work, reported: Progress | None) -> Progress:
    """How far a run is by its files, beside what a driver of an older version has reported."""
    done: dict[tuple[str, str], int] = defaultdict(int)
    known: dict[tuple[str, str], int] = defaultdict(int)
    for shard in work.shards():
        line, written = (shard.stage, shard.name), work.written(shard) or 0
        known[line] += len(work.tasks(shard)) if shard.spec.makes_calls else written
        done[line] += written
    waiting = [batch for batch in batches_in_store(work) if batch.phase is not Phase.DONE]
    return replace(
        reported or Progress("", 0.0, (), calls=0, retries=0, cost_nanousd=0, notes=()),
        stages=tuple(StageProgress(stage, name, known[stage, name], done[stage, name], 0, 0) for stage, name in known),
        batches=tuple(batch_progress(batch) for batch in waiting),
        store=str(work.sweep.store),
        end=None,
    )
