"""The runs of a store. Each run has an id in its sweep.yaml, by which the store attributes spending to it.

    runs/<id>/<epoch>.json             the run held the store's lease in this epoch; `folder` is the run's folder then
    runs/<id>/released-<epoch>.json    money stranded in earlier epochs was released, see `storage.spending`

An epoch belongs to at most one run. A run's folder may be moved, linked or mounted elsewhere. If two folders have the
same id, one is a copy of the other and needs a new id.
"""

import json
import re
from collections.abc import Collection
from datetime import datetime
from uuid import uuid4

from hab_ray.errors import ConfigError, DamagedFile
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import lease_records, read_holder, record_name
from hab_ray.storage.record import run_id_in
from hab_ray.storage.replies.records import RecordKind
from hab_ray.storage.run import RunFolder

_ENTRY = re.compile(r"^runs/([^/]+)/(\d+)\.json$")
_RELEASED = re.compile(r"^released-(\d+)\.json$")


def new_run_id() -> str:
    """Return a new unique run id."""
    return uuid4().hex


def refuse_lost(run: Location, store: Location) -> None:
    """Check that the store of a run that has begun is there: another would pay again, and count nothing as spent.

    Raises:
        ConfigError: there is no store, or only one that knows nothing of the run.
    """
    if RunFolder(run).has_begun() and not _knows(store, run):
        raise ConfigError(
            f"{run}: the run's store, with its replies and what it has spent of its budget, is not at "
            f"{store.absolute()}. Put it back or mount it, even if another sweep has begun a store there meanwhile; if "
            "it was moved, name its new place as `store:` or with --store; if it is lost, give the sweep another "
            "`run:`, which pays for every call again"
        )


def _knows(store: Location, run: Location) -> bool:
    """Return whether a run has held a store. A run without an id, of an older version, may have held any store."""
    if run_id := run_id_in(run):
        registry = Registry(store)
        return bool(registry.epochs_entered({run_id}) or registry.epochs(run_id, run))
    folder = open_folder(store)
    return bool(lease_records(folder)) or any(folder.list(kind) for kind in (*RecordKind, "ledger", "runs"))


class Registry:
    """The runs of the store at a location."""

    def __init__(self, store: Location) -> None:
        self._folder, self._store = open_folder(store), store

    def epochs(self, run_id: str, run: Location) -> frozenset[int]:
        """Return the epochs in which a run held the store's lease.

        Unclaimed epochs of the same folder count too: they are from before runs had ids, or from a probe before the
        run began.
        """
        entries = self._entries()
        name = run.relative_to(self._store)
        claimed = {record_name(epoch) for _, epoch in entries}
        unclaimed = (
            read_holder(self._folder, record) for record in lease_records(self._folder) if record not in claimed
        )
        return self.epochs_entered({run_id}) | {holder.epoch for holder in unclaimed if holder.run == name}

    def enter(self, run_id: str, run: Location, now: datetime) -> None:
        """Claim for a run all its `epochs` that it has not claimed yet. Requires the lease."""
        text = json.dumps({"folder": run.relative_to(self._store), "at": now.isoformat(timespec="seconds")}).encode()
        for epoch in sorted(self.epochs(run_id, run) - self.epochs_entered({run_id})):
            self._folder.put_new(f"runs/{run_id}/{epoch:06d}.json", text)

    def refuse_copy(self, run_id: str, run: Location) -> None:
        """Check that no other folder has this run's id; raise ConfigError if another folder has it."""
        other = self.other_folder(run_id, run)
        if other is not None:
            raise ConfigError(
                f"{run}: is a copy of {other}, and both count as one run; give `--new-id` to make this one a run of "
                "its own, or remove one of the two"
            )

    def other_folder(self, run_id: str, run: Location) -> Location | None:
        """Return the other folder with this id in which the run was driven last; None if there is no other.

        Raises:
            DamagedFile: the registry entry with that folder cannot be read.
        """
        newest = self._newest().get(run_id)
        if newest is None:
            return None
        last = self._folder_of(run_id, newest)
        return last if run_id_in(last) == run_id and not last.is_same(run) else None

    def last_folders(self) -> dict[str, Location]:
        """Return the folder in which each run was driven last, by run id.

        Raises:
            DamagedFile: a registry entry cannot be read.
        """
        return {id: self._folder_of(id, epoch) for id, epoch in self._newest().items()}

    def epochs_entered(self, run_ids: Collection[str]) -> frozenset[int]:
        """Return the epochs that these runs have claimed."""
        return frozenset(epoch for id, epoch in self._entries() if id in run_ids)

    def _newest(self) -> dict[str, int]:
        return dict(sorted(self._entries()))

    def _folder_of(self, run_id: str, epoch: int) -> Location:
        name = f"runs/{run_id}/{epoch:06d}.json"
        try:
            return self._store.resolve(str(json.loads(self._folder.get(name))["folder"]))
        except (ValueError, TypeError, KeyError):
            raise DamagedFile(
                f"the store's {name}, which says where the folder of a run was, cannot be read. Put it back from a "
                "backup, or delete it if the run's folder was not copied or moved since, and run the same command "
                "again; no reply is lost"
            ) from None

    def released_up_to(self, run_id: str) -> int:
        """Return the latest epoch that released the money stranded in earlier ones; 0 if none did."""
        names = (name.rpartition("/")[2] for name in self._folder.list(f"runs/{run_id}"))
        return max((int(found.group(1)) for name in names if (found := _RELEASED.match(name))), default=0)

    def release(self, run_id: str, epoch: int, nanousd: int, now: datetime) -> None:
        """Record that money stranded in the run's earlier epochs no longer counts as spent. Requires the lease."""
        text = json.dumps({"nanousd": nanousd, "at": now.isoformat(timespec="seconds")}).encode()
        self._folder.put_new(f"runs/{run_id}/released-{epoch:06d}.json", text)

    def _entries(self) -> list[tuple[str, int]]:
        found = map(_ENTRY.match, self._folder.list("runs"))
        return [(entry.group(1), int(entry.group(2))) for entry in found if entry]
