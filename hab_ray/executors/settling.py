"""Settling one shard, wherever that is done: in a thread or process of this machine, or in a task of Ray."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import Compute, RowsComputed, Settle, ShardSettled
from hab_ray.rows import ChosenTest
from hab_ray.storage.folder import open_folder
from hab_ray.storage.store import Store
from hab_ray.work import StageName, Work


@dataclass(frozen=True)
class Site:
    """What settling needs wherever it runs: the run's work, its store and its pending files. Picklable.

    Permanent failures of epochs before `failures_since` count as open calls; where it is not 0, no view counts as
    complete before it was derived again.
    """

    work: Work
    store: Path
    failures_since: int
    pending: Pending

    def open_store(self) -> Store:
        """A reader of the store. Readers remember what they have indexed, so keep it between orders."""
        return Store(open_folder(self.store), self.failures_since)


def settle_shard(site: Site, settle: Settle, store: Store) -> ShardSettled:
    """Take a shard as far as the store has it: write its rows as an unpublished view, spool its open calls.

    Raises:
        DamagedFile, OSError: a file of the run or the store cannot be read or written.
    """
    work, shard = site.work, settle.shard
    tasks = work.tasks(shard)
    if _is_done(site, settle, len(tasks)):
        return ShardSettled(settle, len(tasks), len(tasks), is_done=True)
    settled = work.settled(shard, tasks, store)
    written = replace(work, run_path=site.pending.place(settle.order))
    written.write(shard, settled.rows)
    calls = [(row_id, call) for row_id, call in settled.open if row_id not in settle.skip]
    return ShardSettled(
        settle,
        total=len(tasks),
        rows=len(settled.rows),
        given_up=len(settled.open) - len(calls),
        spool=site.pending.spool(settle, calls) if calls else None,
        view=written.run.has(shard.file),
    )


def _is_done(site: Site, settle: Settle, total: int) -> bool:
    """Whether the published view has every row, so that the store need not be asked."""
    run, shard = site.work.run, settle.shard
    if shard.stage is StageName.SELECT:
        return run.has(shard.file)
    return not site.failures_since and run.count(shard.file) == total


def compute_rows(site: Site, compute: Compute, store: Store) -> RowsComputed:
    """Choose the tests of a dimension from the vectors in the store, with one BLAS thread, as an unpublished view.

    More BLAS threads would choose other tests and take longer.
    """
    work, shard = site.work, compute.shard
    settled = work.settled(shard, work.tasks(shard), store)
    with threadpool_limits(limits=1):
        tests, note = work.choose_tests(shard.dimension, settled.rows)
    replace(work, run_path=site.pending.place(compute.order)).run.write(ChosenTest, shard.file, tests)
    return RowsComputed(compute, note)
