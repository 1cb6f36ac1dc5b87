"""Settling and computing one shard, in a thread or process on this machine or in a Ray task."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hab_ray.engine.jobs import Job
from hab_ray.errors import ConfigError
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import Compute, RowsComputed, Settle, ShardSettled
from hab_ray.location import Location
from hab_ray.resources import exits_refused
from hab_ray.stages import wiring
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import Store
from hab_ray.work import Settled, Shard, Work, is_complete


@dataclass(frozen=True)
class WorkerContext:
    """The work, store and pending files of a run, which every worker needs. Picklable.

    Permanent failures of epochs before `failures_since` count as open calls; if it is not 0, a view counts as complete
    only once it has been derived again.
    """

    work: Work
    store: Location
    failures_since: int
    pending: Pending

    def open_store(self) -> Store:
        """Open a reader of the store. Reuse it for several orders, because it keeps its index."""
        return Store(open_folder(self.store), self.failures_since)


@exits_refused()
def settle_shard(site: WorkerContext, settle: Settle, store: Store) -> ShardSettled:
    """Settle a shard: write the rows that the store has outcomes for as an unpublished view, and spool its open calls.

    Raises:
        DamagedFile, OSError: a file of the run or the store cannot be read or written.
    """
    work, shard = site.work, settle.shard
    if not shard.spec.makes_calls:
        return ShardSettled(settle, 0, 0, is_done=work.is_frozen(shard))
    tasks = work.tasks(shard)
    if is_complete(work, shard, len(tasks), site.failures_since):
        return ShardSettled(settle, len(tasks), len(tasks), is_done=True)
    settled = work.settled(shard, tasks, store)
    with _blaming_stage(shard):
        work.write(shard, settled.rows, site.pending.folder_of(settle.order))
    jobs = list(_jobs(settle, tasks, settled))
    return ShardSettled(
        settle,
        total=len(tasks),
        rows=len(settled.rows),
        given_up=len(settled.open) - len(jobs),
        spool=site.pending.spool(settle.order, shard.stage, work.model(shard), jobs) if jobs else None,
        view=shard.spec.has_view,
        first_asks=sum(job.task is not None for job in jobs),
    )


def _jobs(settle: Settle, tasks: Sequence[Any], settled: Settled) -> Iterator[Job]:
    """Yield the open calls to send. The task of a re-ask is not among the shard's tasks, so its job has no position."""
    positions = {id(task): position for position, task in enumerate(tasks)}
    for (row_id, call), task in zip(settled.open, settled.waiting, strict=True):
        if row_id not in settle.skip:
            yield Job(settle.number, row_id, call, positions.get(id(task)))


@exits_refused()
def compute_rows(site: WorkerContext, compute: Compute, store: Store) -> RowsComputed:
    """Compute a shard's rows and write them as an unpublished view.

    Raises:
        DamagedFile, OSError: a file of the run or the store cannot be read or written.
    """
    computed = site.work.compute(compute.shard, store)
    with _blaming_stage(compute.shard):
        site.work.write(compute.shard, computed.rows, site.pending.folder_of(compute.order))
        return RowsComputed(compute, len(computed.rows), computed.note)


@contextmanager
def _blaming_stage(shard: Shard) -> Iterator[None]:
    """Blame the package that adds a stage for rows of another type than it declares.

    Raises:
        ConfigError: the rows cannot be written.
    """
    try:
        yield
    except (TypeError, AttributeError) as error:
        package = wiring.packages().get(shard.stage)
        if package is None:
            raise
        raise ConfigError(
            f"the package {package}, which adds the stage {shard.stage!r}, is broken: the stage's rows cannot be "
            f"written ({error}). Update, repair or uninstall it. What the run has stored is kept"
        ) from error
