"""What a store keeps that no run uses, and its removal.

A reply may go only if the run that paid for it is gone, because what a run has spent is read from its replies, and if
no run that is there would read it. What a run reads is found as the run finds it: its shards are settled against the
store, through re-asks. Replies of nobody's epochs (probes, stores from before runs had ids) stay, and so does the
ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.progress import PROGRESS, read_progress
from hab_ray.resolve import load_work
from hab_ray.stages.base import CallStage
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.record import run_id_in
from hab_ray.storage.registry import Registry
from hab_ray.storage.replies.records import RecordKind, is_part, read_table
from hab_ray.storage.replies.sidecars import put_part, sidecar_name
from hab_ray.storage.replies.store import Store
from hab_ray.storage.run import SWEEP
from hab_ray.work import Work, settle

_REPLY_KEY = "reply_key"


@dataclass(frozen=True)
class Runs:
    """The runs of a store by id: where those that are there lie, and where those that are gone were last."""

    there: Mapping[str, Location]
    gone: Mapping[str, Location]


@dataclass(frozen=True)
class UnusedRows:
    """A file of the store of `total` records, `keep` of which stay; all of it or a part's others may go."""

    name: str
    total: int
    keep: int
    bytes: int


def runs_of(store: Location, folders: Sequence[Location]) -> Runs:
    """Which of a store's runs are there: where the store saw them last, or one level below `folders`.

    Raises:
        ConfigError: the record of a run that is there cannot be read, or the folder that a run was in is away.
    """
    found: dict[str, Location] = {}
    for folder in folders:
        names = open_folder(folder).list()
        for run in (folder / name for name, _, file in (one.partition("/") for one in names) if file == SWEEP):
            found[_id_of(run)] = run
    gone = {}
    for id, place in Registry(store).last_folders().items():
        if id in found:
            continue
        if open_folder(place).exists(SWEEP) and _id_of(place) == id:
            found[id] = place
            continue
        around = [folder for folder in folders if folder.is_same(place.parent)]
        if place.is_local and not place.parent.path.is_dir() and not around:
            raise ConfigError(
                f"store {store}: a run of it was last at {place}, and {place.parent} is not there, so that nobody "
                f"knows what the run uses. Give the folder that its runs are in now: `hab store gc {store} FOLDER`"
            )
        gone[id] = place
    return Runs(found, gone)


def _id_of(run: Location) -> str:
    id = run_id_in(run)
    if id is None:
        raise ConfigError(f"{run}/{SWEEP}: cannot be read, so that nobody knows what the run uses; mend or remove it")
    return id


def used_keys(store: Location, runs: Runs, now: datetime) -> set[str]:
    """The keys of all calls that the runs which are there read from the store.

    Raises:
        ConfigError: a run has not ended complete, or cannot be resolved, so that nobody knows what it will use.
    """
    used: set[str] = set()
    for run in runs.there.values():
        folder = open_folder(run)
        ended = read_progress(folder.get(PROGRESS)).end if folder.exists(PROGRESS) else None
        if ended is None or ended.status != Exit.COMPLETE:
            raise ConfigError(
                f"{run}: this run is not complete, so that nobody knows what it will use; give its `hab run` again "
                "until it is, or remove it with `hab rm`"
            )
        used |= _keys_of(load_work(run, now), Store(open_folder(store)))
    return used


def _keys_of(work: Work, store: Store) -> set[str]:
    """The keys that settling a run's shards asks for, and those that its rows name."""
    used: set[str] = set()
    for name in work.models:
        store.refresh(name)
    for shard in work.shards():
        stage = work.stage(shard)
        if isinstance(stage, CallStage):
            model = work.model(shard).name

            def read(keys: Sequence[str], model: str = model) -> Mapping[str, Any]:
                used.update(keys)
                return store.read(model, keys)

            settle(stage, work.tasks(shard), read)
        if shard.spec.has_view and work.run.has(shard.file):
            table = read_table(shard.file, work.run.folder.get(shard.file))
            if _REPLY_KEY in table.column_names:
                used.update(table.column(_REPLY_KEY).to_pylist())
    return used


def unused(folder: Folder, epochs: AbstractSet[int], used: AbstractSet[str]) -> Iterator[UnusedRows]:
    """The files with records that were paid for in these epochs and that nobody uses.

    Of a file that a writer left only the whole may go.
    """
    for kind in RecordKind:
        for name in folder.list(kind):
            table = read_table(name, folder.get(name), ["key", "epoch"])
            keep = sum(_stays(table, epochs, used))
            if keep == 0 or (keep < table.num_rows and is_part(name) and kind is not RecordKind.FAILURES):
                yield UnusedRows(name, table.num_rows, keep, folder.size(name))


def remove(
    folder: Folder, files: Sequence[UnusedRows], epochs: AbstractSet[int], used: AbstractSet[str], epoch: int
) -> None:
    """Remove unused records, for the holder of the lease under this epoch.

    What stays of a part is written before the part goes, so that a process that ends in between loses nothing: a record
    that stands in two files counts once.
    """
    for number, file in enumerate(files):
        if file.keep:
            table = read_table(file.name, folder.get(file.name))
            stem = f"{file.name.rpartition('/')[0]}/part-{epoch:06d}.{number:06d}"
            put_part(folder, stem, table.filter(pa.array(_stays(table, epochs, used))))
        folder.delete(file.name)
        if is_part(file.name):
            folder.delete(sidecar_name(file.name))


def _stays(table: pa.Table, epochs: AbstractSet[int], used: AbstractSet[str]) -> list[bool]:
    keys, paid = table.column("key").to_pylist(), table.column("epoch").to_pylist()
    return [key in used or epoch not in epochs for key, epoch in zip(keys, paid, strict=True)]
