"""The runs of a store. A run has an id, kept in its sweep.yaml, and the store keeps by it what each run has spent.

    runs/<id>/<epoch>.json             this run's process held the store in that epoch; `folder` is where the run was
    runs/<id>/released-<epoch>.json    what earlier epochs had stranded was released, see `storage.spending`

An epoch belongs to at most one run. Where the run's folder lies does not matter: it may be moved, linked or mounted
elsewhere. Two folders with one id are a copy, and one of the two must be given an id of its own.
"""

from __future__ import annotations

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

_ENTRY = re.compile(r"^runs/([^/]+)/(\d+)\.json$")
_RELEASED = re.compile(r"^released-(\d+)\.json$")


def new_run_id() -> str:
    """An id that no other run has."""
    return uuid4().hex


class Registry:
    """The runs of the store at a location."""

    def __init__(self, store: Location) -> None:
        self._folder, self._store = open_folder(store), store

    def epochs(self, run_id: str, run: Location) -> frozenset[int]:
        """The epochs in which a run's processes held the store.

        Epochs of the same folder that are nobody's count too: they are of a store from before runs had ids, or of a
        probe before the run began.
        """
        entries = self._entries()
        own = {epoch for id, epoch in entries if id == run_id}
        name = run.seen_from(self._store)
        claimed = {record_name(epoch) for _, epoch in entries}
        unclaimed = (
            read_holder(self._folder, record) for record in lease_records(self._folder) if record not in claimed
        )
        return frozenset(own | {holder.epoch for holder in unclaimed if holder.run == name})

    def enter(self, run_id: str, run: Location, now: datetime) -> None:
        """Claim this epoch for a run, and what else `epochs` counts as its; for the lease's holder."""
        own = {epoch for id, epoch in self._entries() if id == run_id}
        text = json.dumps({"folder": run.seen_from(self._store), "at": now.isoformat(timespec="seconds")}).encode()
        for epoch in sorted(self.epochs(run_id, run) - own):
            self._folder.put_new(f"runs/{run_id}/{epoch:06d}.json", text)

    def refuse_copy(self, run_id: str, run: Location) -> None:
        """Check that no other folder is this same run.

        Raises:
            ConfigError: another folder has the id.
        """
        other = self.other_folder(run_id, run)
        if other is not None:
            raise ConfigError(
                f"{run}: is a copy of {other}, and both count as one run; give `--new-id` to make this one a run of "
                "its own, or remove one of the two"
            )

    def other_folder(self, run_id: str, run: Location) -> Location | None:
        """Another folder with the same id, where this run was driven last; None where there is none.

        Raises:
            DamagedFile: it is not known where that was.
        """
        newest = self._newest().get(run_id)
        if newest is None:
            return None
        last = self._folder_of(run_id, newest)
        return last if run_id_in(last) == run_id and not last.is_same(run) else None

    def last_folders(self) -> dict[str, Location]:
        """Where each run was when it was driven last, by its id.

        Raises:
            DamagedFile: it is not known of one.
        """
        return {id: self._folder_of(id, epoch) for id, epoch in self._newest().items()}

    def epochs_entered(self, run_ids: Collection[str]) -> frozenset[int]:
        """The epochs that these runs have claimed."""
        return frozenset(epoch for id, epoch in self._entries() if id in run_ids)

    def _newest(self) -> dict[str, int]:
        """The last epoch of each run: a later entry replaces an earlier one."""
        return dict(sorted(self._entries()))

    def _folder_of(self, run_id: str, epoch: int) -> Location:
        name = f"runs/{run_id}/{epoch:06d}.json"
        try:
            return self._store.follow(str(json.loads(self._folder.get(name))["folder"]))
        except (ValueError, TypeError, KeyError):
            raise DamagedFile(
                f"the store's {name}, which says where the folder of a run was, cannot be read. Put it back from a "
                "backup, or delete it if the run's folder was not copied or moved since, and give the same command "
                "again; no reply is lost"
            ) from None

    def released_up_to(self, run_id: str) -> int:
        """The epoch whose holder released what earlier ones had stranded; 0 where nobody did."""
        names = (name.rpartition("/")[2] for name in self._folder.list(f"runs/{run_id}"))
        return max((int(found.group(1)) for name in names if (found := _RELEASED.match(name))), default=0)

    def release(self, run_id: str, epoch: int, nanousd: int, now: datetime) -> None:
        """Note that what the run's earlier epochs had stranded counts as spent no longer; for the lease's holder."""
        text = json.dumps({"nanousd": nanousd, "at": now.isoformat(timespec="seconds")}).encode()
        self._folder.put_new(f"runs/{run_id}/released-{epoch:06d}.json", text)

    def _entries(self) -> list[tuple[str, int]]:
        """The runs that the store knows, each with every epoch that it has claimed."""
        found = map(_ENTRY.match, self._folder.list("runs"))
        return [(entry.group(1), int(entry.group(2))) for entry in found if entry]
