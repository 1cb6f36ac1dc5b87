"""One spending driver per store: the lease.

On local disk an exclusive flock decides, and `lease/<epoch>.json` tells everybody else who holds it. Each
holder has an epoch of its own, one above the last; whoever sees a higher epoch than its own stops spending.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Self

from hab_ray.errors import DamagedFile, LeaseLost, StoreHeld
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.visible import one_line

WATCH_EVERY_S = 1.0
UNCLEAN_WAIT_S = 10.0


@dataclass(frozen=True)
class Holder:
    """Who holds a store, as written in `lease/<epoch>.json`; `run` is the way from the store to the run."""

    epoch: int
    pid: int
    host: str
    run: str
    since: str
    released: bool


def _name(epoch: int) -> str:
    return f"lease/{epoch:06d}.json"


def holders(folder: Folder) -> Iterator[Holder]:
    """Everybody who ever held the store, the first one first."""
    for name in _records(folder):
        yield read_holder(folder, name)


def last_holder(folder: Folder) -> Holder | None:
    """Who held the store last, or holds it now; None where nobody ever did."""
    records = _records(folder)
    return read_holder(folder, records[-1]) if records else None


def _records(folder: Folder) -> list[str]:
    return [name for name in folder.list("lease") if name.endswith(".json")]


def read_holder(folder: Folder, name: str) -> Holder:
    """The holder that a file of the lease names.

    Raises:
        DamagedFile: it names none.
    """
    try:
        return Holder(**json.loads(folder.get(name)))
    except (ValueError, TypeError):
        raise DamagedFile(
            f"the store's {name}, which says who held it, cannot be read. If no other `hab` works on this store, put "
            "it back from a backup or delete it, and give the same command again; no reply is lost, but a run's "
            "`budget_usd` no longer counts what was spent under a lease that is deleted"
        ) from None


class LocalLease:
    """The lease of a store on local disk, held until `release` or the end of the process.

    `clean` says whether the holder before released it; after a crash the first online call waits
    `UNCLEAN_WAIT_S`, because an orphaned Ray actor was seen to work for 2.6 s after its driver's kill -9.
    """

    def __init__(self, lock: int, folder: Folder, holder: Holder, clean: bool) -> None:
        self._lock, self._folder, self._holder = lock, folder, holder
        self.clean = clean

    @property
    def epoch(self) -> int:
        """This holder's number."""
        return self._holder.epoch

    @classmethod
    def acquire(cls, store: Location, run: Location, now: datetime) -> Self:
        """Take the lease of a store for a run.

        Raises:
            StoreHeld: another driver has it.
        """
        folder, locks = open_folder(store), store.path / "lease"
        locks.mkdir(parents=True, exist_ok=True)
        lock = os.open(locks / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StoreHeld(_held_message(store, last_holder(folder))) from None
        before = last_holder(folder)
        epoch = before.epoch + 1 if before else 1
        way = run.seen_from(store)
        holder = Holder(epoch, os.getpid(), socket.gethostname(), way, now.isoformat(), released=False)
        folder.put_new(_name(epoch), json.dumps(asdict(holder)).encode())
        return cls(lock, folder, holder, clean=before is None or before.released)

    def release(self) -> None:
        """Give the store back; the next driver starts without the wait after a crash, unless the disk is full."""
        released = {**asdict(self._holder), "released": True}
        with suppress(OSError):
            self._folder.put(_name(self.epoch), json.dumps(released).encode())
        os.close(self._lock)


def _held_message(store: Location, holder: Holder | None) -> str:
    who = (
        one_line(f"process {holder.pid} on {holder.host}, run {store.follow(holder.run)}, since {holder.since}")
        if holder and not holder.released
        else "another process that has just started"
    )
    return (
        f"the store {store} is held by {who}: one driver spends from a store at a time; "
        f"wait for it to end, or give this sweep another `store:`"
    )


class LeaseWatch:
    """What every spender asks before each call: is the epoch it works for still the newest?

    The folder is listed at most every `WATCH_EVERY_S` by the clock given (seconds, monotonic).
    """

    def __init__(self, folder: Folder, epoch: int, clock: Callable[[], float]) -> None:
        self._folder, self._epoch, self._clock = folder, epoch, clock
        self._looked_at = float("-inf")

    def check(self) -> None:
        """Return while this epoch holds the store.

        Raises:
            LeaseLost: a later epoch is there, or this one was released.
        """
        now = self._clock()
        if now - self._looked_at < WATCH_EVERY_S:
            return
        holder = last_holder(self._folder)
        if holder is None or holder.epoch != self._epoch or holder.released:
            raise LeaseLost(f"the lease of epoch {self._epoch} has ended: nothing more is spent under it")
        self._looked_at = now
