"""Which run a folder holds, as the holder of the store's lease sees it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hab_ray.errors import ConfigError
from hab_ray.resolve import refuse_other_store, run_id_in
from hab_ray.storage.folder import open_folder
from hab_ray.storage.format import adopt
from hab_ray.storage.registry import Registry, new_run_id
from hab_ray.storage.sidecars import complete_sidecars
from hab_ray.work import Work


def registry_of(work: Work) -> Registry:
    """The runs of a sweep's store."""
    return Registry(open_folder(work.sweep.store), work.sweep.store)


def identified(work: Work) -> Work:
    """The same work under the id that the folder has now: another process may have started the run meanwhile.

    Raises:
        ConfigError: the folder is a copy of another run's, or the run belongs to another store.
    """
    work = replace(work, run_id=run_id_in(work.run_path) or work.run_id)
    refuse_other_store(work)
    registry_of(work).refuse_copy(work.run_id, work.run_path, run_id_in)
    return work


def separated(work: Work) -> Work:
    """The same work as a run of its own, for a folder that is a copy of another run's.

    Raises:
        ConfigError: it is none; a new id would only make the store forget what the run has spent.
    """
    work = replace(work, run_id=run_id_in(work.run_path) or work.run_id)
    if registry_of(work).other_folder(work.run_id, work.run_path, run_id_in) is None:
        raise ConfigError(
            f"--new-id: {work.run_path} is not a copy of another run that is still there; leave --new-id out, and what "
            "the run has spent stays with it"
        )
    return replace(work, run_id=new_run_id())


def entered(work: Work, now: datetime) -> None:
    """Have the store keep this process's spending under the run's id, which is in its record by now.

    For the lease's holder, who also makes the sidecars that an older version or a cut-off compaction left out.
    """
    folder = open_folder(work.sweep.store)
    adopt(folder, f"store {work.sweep.store}")
    complete_sidecars(folder)
    registry_of(work).enter(work.run_id, work.run_path, now)
