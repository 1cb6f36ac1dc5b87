"""Finds and removes stored replies that no run uses.

A reply may be removed only if the run that paid for it no longer exists, because a run's spending is read from its
replies, and if no existing run would read it. To find what a run reads, its shards are settled against the store,
including re-asks. Replies whose epoch belongs to no run (probes, stores older than run ids) and the ledger are kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from hab_ray.calls import Call, Outcome
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.progress import PROGRESS, read_progress
from hab_ray.resolve import load_work
from hab_ray.stages.added import missing_stages
from hab_ray.stages.base import CallStage
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.record import read_record, run_id_in
from hab_ray.storage.registry import Registry
from hab_ray.storage.replies.records import RecordKind, is_part, read_table
from hab_ray.storage.replies.sidecars import put_part, sidecar_name
from hab_ray.storage.replies.store import Store
from hab_ray.storage.run import SWEEP, runs_below
from hab_ray.work import Work, settle

_REPLY_KEY = "reply_key"


@dataclass(frozen=True)
class Runs:
    """A store's runs by id: the folders of existing runs (`there`), the last folders of deleted ones (`gone`)."""

    there: Mapping[str, Location]
    gone: Mapping[str, Location]


@dataclass(frozen=True)
class UnusedRows:
    """A file of the store with `total` records, of which `keep` must be kept."""

    name: str
    total: int
    keep: int
    bytes: int


def runs_of(store: Location, folders: Sequence[Location]) -> Runs:
    """Find a store's runs at their last known folders, and in or one level below `folders`.

    Raises:
        ConfigError: the record of an existing run cannot be read, one of `folders` holds no run, or the parent folder
            of a run is missing.
    """
    there = {_id_of(run): run for folder in folders for run in _runs_in(folder)}
    gone = {}
    for id, last in Registry(store).last_folders().items():
        if id in there:
            continue
        if open_folder(last).exists(SWEEP) and _id_of(last) == id:
            there[id] = last
            continue
        is_searched = any(folder.is_same(last.parent) for folder in folders)
        if last.is_local and not last.parent.path.is_dir() and not is_searched:
            raise ConfigError(
                f"store {store}: one of its runs was last seen at {last}, but {last.parent} does not exist, so what "
                f"the run uses is unknown. Give the folder that its runs are in now: `hab store gc {store} FOLDER`"
            )
        gone[id] = last
    return Runs(there, gone)


def _runs_in(folder: Location) -> list[Location]:
    """Return the runs in a folder. It is one itself, unless its sweep.yaml is a user's sweep file."""
    runs, files = runs_below(folder), open_folder(folder)
    if files.exists(SWEEP) and (files.exists(PROGRESS) or run_id_in(folder) is not None):
        runs.append(folder)
    if not runs:
        raise ConfigError(f"{folder}: there is no run in it; name a run's folder, or the folder that runs are in")
    return runs


def _id_of(run: Location) -> str:
    """Return a run's id; raise ConfigError if its record cannot be read, or is of a version before runs had ids."""
    try:
        record = read_record(run)
    except ConfigError:
        raise ConfigError(
            f"{run}/{SWEEP}: cannot be read, so what the run uses is unknown; repair or remove it"
        ) from None
    if record is None or record.id is None:
        raise ConfigError(
            f"{run}: this run is of a version in which runs had no ids, so what it uses is unknown; repeat its "
            "`hab run`, which gives it one and pays for nothing again"
        )
    return record.id


def used_keys(store: Location, runs: Runs, now: datetime) -> set[str]:
    """Return the keys of all calls that existing runs read from the store.

    Raises:
        ConfigError: a run is not complete, or cannot be resolved, so what it will use is unknown.
    """
    used: set[str] = set()
    for run in runs.there.values():
        folder = open_folder(run)
        ended = read_progress(folder.get(PROGRESS)).end if folder.exists(PROGRESS) else None
        if ended is None or ended.status != Exit.COMPLETE:
            raise ConfigError(
                f"{run}: this run is not complete, so what it will use is unknown; repeat its `hab run` until it is "
                "complete, or remove it with `hab rm`"
            )
        record = read_record(run)
        if record and (missing := missing_stages(record.versions)):
            raise ConfigError(
                f"{run}: the stage {missing[0]} is not installed, so what the run uses is unknown; install that package"
            )
        used |= _keys_of(load_work(run, now), Store(open_folder(store)))
    return used


def _keys_of(work: Work, store: Store) -> set[str]:
    """Return the keys that settling a run's shards looks up, and those that its rows name."""
    used: set[str] = set()
    for name in work.models:
        store.refresh(name)
    for shard in work.shards():
        stage = work.stage(shard)
        if isinstance(stage, CallStage):
            model = work.model(shard).name

            def read(calls: Sequence[Call], model: str = model) -> Mapping[str, Outcome]:
                used.update(call.key for call in calls)
                return store.outcomes(model, calls)

            settle(stage, work.tasks(shard), read)
        if shard.spec.has_view and work.run.has(shard.file):
            table = read_table(shard.file, work.run.folder.get(shard.file))
            if _REPLY_KEY in table.column_names:
                used.update(table.column(_REPLY_KEY).to_pylist())
    return used


def unused(folder: Folder, epochs: AbstractSet[int], used: AbstractSet[str]) -> Iterator[UnusedRows]:
    """Yield the files that hold unused records paid for in `epochs`.

    Compacted parts of replies and embeddings may be rewritten without some records; other files are removed only whole.
    """
    for kind in RecordKind:
        for name in folder.list(kind):
            table = read_table(name, folder.get(name), ["key", "epoch"])
            keep = sum(_kept(table, epochs, used))
            if keep == 0 or (keep < table.num_rows and is_part(name) and kind is not RecordKind.FAILURES):
                yield UnusedRows(name, table.num_rows, keep, folder.size(name))


def remove(
    folder: Folder, files: Sequence[UnusedRows], epochs: AbstractSet[int], used: AbstractSet[str], epoch: int
) -> None:
    """Remove unused records. The caller must hold the store's lease, under `epoch`.

    The kept records of a part are written before the part is deleted, so that a crash in between loses nothing: a
    record in two files counts once.
    """
    for number, file in enumerate(files):
        if file.keep:
            table = read_table(file.name, folder.get(file.name))
            stem = f"{file.name.rpartition('/')[0]}/part-{epoch:06d}.{number:06d}"
            put_part(folder, stem, table.filter(pa.array(_kept(table, epochs, used))))
        folder.delete(file.name)
        if is_part(file.name):
            folder.delete(sidecar_name(file.name))


def _kept(table: pa.Table, epochs: AbstractSet[int], used: AbstractSet[str]) -> list[bool]:
    keys, paid_in = table.column("key").to_pylist(), table.column("epoch").to_pylist()
    return [key in used or epoch not in epochs for key, epoch in zip(keys, paid_in, strict=True)]
