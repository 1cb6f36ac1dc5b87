"""The lease, which ensures that only one driver spends from a store.

`lease/<epoch>.json` names the holder. Each new holder has the next higher epoch; a process that sees an epoch above
its own stops spending. `takeover.acquire_lease` chooses between two kinds of lease:

- `LocalLease`: an exclusive flock, for a store used by one machine only. The kernel releases it with the process.
- `renewed.RenewedLease`: a record that its holder rewrites periodically, for a store that several machines use.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Protocol, Self

from pydantic import ConfigDict, Field, TypeAdapter

from hab_ray.bounds import Int64
from hab_ray.errors import DamagedFile, LeaseLost, StoreHeld
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.lease.watches import RemoteWatch, RenewalAge, Watch, awake_clock
from hab_ray.storage.modes import make_folder, open_new
from hab_ray.visible import one_line

WATCH_EVERY_S = 1.0
UNCLEAN_WAIT_S = 10.0
_TRIES, _RETRY_S = 5, 0.01
RecordedSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Renewal:
    """The part of a lease record that its holder rewrites; `counter` and `nonce` differ in each record.

    The first half of the nonce identifies the holder, the second is random. Times are in seconds, as in `LeaseTimes`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    counter: int
    nonce: str
    renew_s: RecordedSeconds
    lost_s: RecordedSeconds
    take_s: RecordedSeconds


@dataclass(frozen=True)
class Holder:
    """The holder of a store, as in `lease/<epoch>.json`. A holder without a `renewal` holds a lock.

    `run` is the path of the run relative to the store.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    epoch: Int64
    pid: Int64
    host: str
    run: str
    since: str
    released: bool
    renewal: Renewal | None = None

    @classmethod
    def after(cls, before: Holder | None, store: Location, run: Location, now: datetime) -> Self:
        """Return this process as the successor of another holder."""
        epoch = before.epoch + 1 if before else 1
        return cls(epoch, os.getpid(), socket.gethostname(), run.relative_to(store), now.isoformat(), released=False)

    @property
    def name(self) -> str:
        return record_name(self.epoch)

    @property
    def has_stopped(self) -> bool:
        """Whether all spenders of this predecessor have stopped: it released the lease, or was waited out."""
        return self.released or self.renewal is not None

    def record(self) -> bytes:
        fields: dict[str, Any] = asdict(self)
        if self.renewal is None:
            del fields["renewal"]
        return json.dumps(fields).encode()


_HOLDER = TypeAdapter(Holder)


def record_name(epoch: int) -> str:
    """Return the name of the file with the holder of an epoch."""
    return f"lease/{epoch:06d}.json"


def last_holder(folder: Folder) -> Holder | None:
    """Return the current or latest holder of the store; None if it never had one."""
    records = lease_records(folder)
    return read_holder(folder, records[-1]) if records else None


def lease_records(folder: Folder) -> list[str]:
    """Return the names of all lease records, in order of their epochs."""
    return [name for name in folder.list("lease") if name.endswith(".json")]


def read_holder(folder: Folder, name: str) -> Holder:
    """Read a lease record; raise DamagedFile if the record cannot be read, or belongs to another epoch."""
    try:
        holder = _HOLDER.validate_json(folder.get(name))
        if holder.name != name:
            raise ValueError("is the record of another epoch")
        return holder
    except ValueError:
        raise DamagedFile(
            f"the store's {name}, which says who held it, cannot be read. If no other `hab` works on this store, put "
            "it back from a backup or delete it, and run the same command again; no reply is lost, but the "
            "budget of a run no longer counts what was spent under a lease that is deleted"
        ) from None


def take_epoch(folder: Folder, store: Location, holder: Holder) -> None:
    """Create the record of an epoch; only one of several takers succeeds.

    Raises:
        StoreHeld: another taker succeeded.
    """
    try:
        folder.put_new(holder.name, holder.record())
    except Exception as error:  # the write may have succeeded although its answer was lost
        try:
            present = read_holder(folder, holder.name)
        except FileNotFoundError:
            raise error from None
        if present != holder:
            raise held_by(store, present) from None


class Lease(Protocol):
    """The right to spend from a store, held until `release` or the end of the process.

    `clean` is False if workers of the previous holder may still spend, because it held a lock and crashed. The first
    online call then waits `UNCLEAN_WAIT_S`: an orphaned Ray actor was seen to work for 2.6 s after a kill -9 of its
    driver.
    """

    clean: bool

    @property
    def epoch(self) -> int:
        """The number of this holder."""

    @property
    def age_s(self) -> float:
        """Seconds since the lease was last confirmed; infinite once it is lost."""

    @property
    def elsewhere(self) -> RemoteWatch:
        """A new watch for spenders in another process."""

    def watch(self) -> Watch:
        """Return a watch for spenders in this process."""

    def release(self) -> None:
        """Release the store, so that the next driver need not wait as after a crash (unless the disk is full)."""


FindPredecessor = Callable[[Folder], Holder | None]


class LocalLease:
    """The lease of a store used by this machine only: an exclusive lock."""

    age_s = 0.0

    def __init__(self, lock: StoreLock, folder: Folder, holder: Holder, clean: bool) -> None:
        self._lock, self._folder, self._holder = lock, folder, holder
        self.clean = clean

    @property
    def epoch(self) -> int:
        return self._holder.epoch

    @property
    def elsewhere(self) -> RemoteWatch:
        return LeaseWatch(self._folder, self.epoch, awake_clock)

    @classmethod
    def acquire(
        cls, store: Location, run: Location, now: datetime, find_predecessor: FindPredecessor = last_holder
    ) -> Self:
        """Take the lease of a store for a run; `find_predecessor` returns once the last holder has stopped spending.

        Raises:
            StoreHeld: another driver holds it.
        """
        folder = open_folder(store.absolute())
        lock = StoreLock.taken(store, fcntl.LOCK_EX)
        try:
            before = find_predecessor(folder)
            holder = Holder.after(before, store, run, now)
            take_epoch(folder, store, holder)
        except BaseException:
            lock.release()
            raise
        return cls(lock, folder, holder, clean=before is None or before.has_stopped)

    def watch(self) -> Watch:
        return self.elsewhere

    def release(self) -> None:
        with suppress(OSError):
            self._folder.put(self._holder.name, replace(self._holder, released=True).record())
        self._lock.release()


class StoreLock:
    """A flock on a store on disk: exclusive for a `LocalLease`, shared for a `RenewedLease`.

    It keeps the two kinds of lease on one machine from being held at the same time.
    """

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    @classmethod
    def taken(cls, store: Location, kind: int) -> Self:
        """Take the lock; `kind` is `LOCK_EX` or `LOCK_SH`.

        Raises:
            StoreHeld: another process holds it.
            OSError: the file system does not support locks.
        """
        locks = store.path / "lease"
        make_folder(locks, store.path)
        handle = open_new(locks / "lock", store.path, os.O_RDWR)
        try:
            _lock(handle, kind)
        except BlockingIOError:
            os.close(handle)
            raise held_by(store, last_holder(open_folder(store))) from None
        except OSError:
            os.close(handle)
            raise
        return cls(handle)

    @staticmethod
    def is_free(store: Location) -> bool:
        """Return whether no `LocalLease` holds the store; False if that cannot be found out. Writes nothing."""
        try:
            handle = os.open(store.path / "lease" / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            return isinstance(error, FileNotFoundError)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:  # held, or the file system has no locks
            return False
        finally:
            os.close(handle)
        return True

    def release(self) -> None:
        """Release the lock, also for processes that were forked meanwhile; a second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)


def _lock(handle: int, kind: int) -> None:
    """Lock an open file; try again for a moment, because a command that only looks at the lock takes it as well."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            return fcntl.flock(handle, kind | fcntl.LOCK_NB)
        time.sleep(_RETRY_S)
    fcntl.flock(handle, kind | fcntl.LOCK_NB)


def is_locked_here(store: Location, holder: Holder) -> bool | None:
    """Return whether a holder on this machine still has its lock on a store; None if no lock here can tell.

    The process id would not tell: it counts in the holder's own container only.
    """
    if not store.is_local or holder.renewal is not None or holder.host != socket.gethostname():
        return None
    return not StoreLock.is_free(store)


def held_by(store: Location, holder: Holder | None) -> StoreHeld:
    """Return the error for a store that another process holds; it has no record yet if `holder` was released."""
    starting = "another process that has just started"
    who = describe(store, holder) if holder and not holder.released else starting
    return StoreHeld(
        f"the store at {store} is held by {who}: one driver spends from a store at a time; wait for it to end"
    )


def describe(store: Location, holder: Holder) -> str:
    """Describe a current or past holder in one line."""
    run = store.resolve(holder.run)
    return one_line(f"process {holder.pid} on {holder.host}, run {run}, since {holder.since}")


class LeaseWatch:
    """A check that an epoch is still the newest, for spenders to make before each call.

    It lists the folder at most every `WATCH_EVERY_S` by `clock` (monotonic seconds).
    """

    is_locked = True

    def __init__(self, folder: Folder, epoch: int, clock: Callable[[], float]) -> None:
        self._folder, self._epoch, self._clock = folder, epoch, clock
        self._checked_at = float("-inf")

    def check(self) -> None:
        now = self._clock()
        if now - self._checked_at < WATCH_EVERY_S:
            return
        holder = last_holder(self._folder)
        if holder is None:
            raise LeaseLost(
                f"the store's {record_name(self._epoch)} is gone: the store was moved, deleted or unmounted. Nothing "
                "more is spent; put the store back, copy into its folder replies/ what was written at the old place "
                "meanwhile (answers of calls in flight), and run the same command again"
            )
        if holder.epoch != self._epoch or holder.released:
            raise LeaseLost(f"the lease of epoch {self._epoch} has ended: nothing more is spent under it")
        self._checked_at = now

    def hear(self, heard: RenewalAge | None) -> float:
        return self._clock()
