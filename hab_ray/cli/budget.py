"""`hab budget`: give back what a run's unclean ends have stranded."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console

from hab_ray.cli.identity import entered, identified, registry_of
from hab_ray.cli.leasing import lease_terms
from hab_ray.cli.opening import open_run_with_store
from hab_ray.engine.books import batches_of, opening_balance
from hab_ray.engine.ledger import Phase
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.prices import NANO
from hab_ray.resolve import keep_id
from hab_ray.storage.folder import open_folder
from hab_ray.storage.takeover import acquire_lease
from hab_ray.visible import one_line
from hab_ray.work import Work


def release_stranded(run: Location, console: Console) -> Exit:
    """Count what a run's unclean ends have stranded as not spent; the exit status.

    Raises:
        ConfigError: there is no run, or the vendor may still have a batch of it that is not known here.
        StoreHeld: a process drives the store.
    """
    now = datetime.now(UTC)
    work = open_run_with_store(run)
    lease = acquire_lease(work.sweep.store, work.run_path, now, lease_terms(work, console))
    try:
        work = identified(work)
        keep_id(work)
        entered(work, now)
        stranded = _release(work, lease.epoch, now)
    finally:
        lease.release()
    spent = f"${stranded / NANO:.4f} no longer counts as spent" if stranded else "nothing is stranded"
    console.print(one_line(f"{work.run_path}: {spent}"), markup=False, soft_wrap=True)
    return Exit.COMPLETE


def _release(work: Work, epoch: int, now: datetime) -> int:
    folder, registry = open_folder(work.sweep.store), registry_of(work)
    earlier = registry.epochs(work.run_id, work.run_path) - {epoch}
    unresolved = [batch.name for batch in batches_of(folder, earlier) if batch.phase is Phase.IN_DOUBT]
    if unresolved:
        raise ConfigError(
            f"{work.run_path}: it is not known yet whether the vendor has made {', '.join(unresolved)}; "
            "`hab run` finds out, then release"
        )
    stranded = opening_balance(folder, earlier, registry.released_up_to(work.run_id), work.models).stranded
    if stranded:
        registry.release(work.run_id, epoch, stranded, now)
    return stranded
