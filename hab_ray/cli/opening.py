"""Opens run folders for commands that inspect a run: its work, its batches, its progress counted from its files."""

from collections import defaultdict
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime

from hab_ray.catalog.models import folder_name
from hab_ray.engine.ledger import LEDGER, Batch, Ledger, Phase, accounts_in, batch_progress
from hab_ray.errors import ConfigError, DamagedFile
from hab_ray.location import Location
from hab_ray.progress import Progress, StageProgress
from hab_ray.resolve import load_work, refuse_other_store
from hab_ray.storage.folder import open_folder, reach
from hab_ray.storage.format import refuse_newer
from hab_ray.storage.lease.lease import last_holder
from hab_ray.storage.replies.store import Store
from hab_ray.work import Work, rows_done, tasks_now


def load_run(run: Location) -> Work:
    """Load the work of a run folder; raise ConfigError if there is no run or a newer version wrote its store."""
    work = load_work(run, datetime.now(UTC))
    refuse_newer(reach(work.sweep.store), f"store at {work.sweep.store}")
    return work


def open_run_with_store(run: Location) -> Work:
    """Load the work of a run folder; raise ConfigError also if its store is missing or is not the run's own."""
    work = load_run(run)
    if last_holder(open_folder(work.sweep.store)) is None:
        raise ConfigError(
            f"{run}: the run's store is not at {work.sweep.store}. Paths in a sweep are relative to the folder in "
            "which `hab run` was given: run this command in that folder"
        )
    refuse_other_store(work)
    return work


def batches_in_store(work: Work) -> list[Batch]:
    """Return all batches in the run's store, also those of other runs and of providers that the sweep has lost.

    A damaged record of a provider that the sweep does not use is left out. Raise DamagedFile if a record of a provider
    in use cannot be read.
    """
    folder = open_folder(work.sweep.store)
    names = folder.list(LEDGER)
    known = {folder_name(provider): provider for provider in work.catalog.providers}
    used = {model.entry.provider for model in work.models.values()}
    found: list[Batch] = []
    for provider in sorted(known.get(account, account) for account in accounts_in(names)):
        with nullcontext() if provider in used else suppress(DamagedFile):
            found += Ledger(folder, provider).read(names)
    return found


def progress_from_files(work: Work, reported: Progress | None) -> Progress:
    """Count a run's progress from its files; keep the other figures that an older version's driver `reported`."""
    done: dict[tuple[str, str], int] = defaultdict(int)
    total: dict[tuple[str, str], int] = defaultdict(int)
    store = Store(open_folder(work.sweep.store))
    for shard in work.shards():
        line = shard.stage, shard.name
        if shard.spec.makes_calls:
            total[line] += len(tasks_now(work, shard, store))
            done[line] += rows_done(work, shard, store) if shard.spec.has_view else 0
        else:
            written = work.written(shard) or 0
            total[line] += written
            done[line] += written
    waiting = [batch for batch in batches_in_store(work) if batch.phase is not Phase.DONE]
    return replace(
        reported or Progress("", 0.0, (), calls=0, retries=0, cost_nanousd=0, notes=()),
        stages=tuple(StageProgress(*line, total[line], done[line], failed=0, in_flight=0) for line in total),
        batches=tuple(batch_progress(batch) for batch in waiting),
        store=str(work.sweep.store),
        end=None,
    )
