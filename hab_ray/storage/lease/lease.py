"""One spending driver per store: the lease.

`lease/<epoch>.json` says who holds the store. Each holder has an epoch of its own, one above the last; whoever sees a
higher epoch than its own stops spending. There are two ways to hold it, and `takeover.acquire_lease` chooses:

- `LocalLease`: an exclusive flock, for a store that one machine alone works on. The kernel ends it with the process.
- `renewed.RenewedLease`: a record that is rewritten again and again, for a store that many machines reach.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
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
RecordedSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Renewal:
    """What a holder without a lock rewrites: `counter` and `nonce` differ in each record, the times are its own.

    The first half of the nonce is the holder's, by which it knows its own records; the second is fresh.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    counter: int
    nonce: str
    renew_s: RecordedSeconds
    lost_s: RecordedSeconds
    take_s: RecordedSeconds


@dataclass(frozen=True)
class Holder:
    """Who holds a store, as written in `lease/<epoch>.json`; `run` is the way from the store to the run.

    Without a `renewal` it holds a lock.
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
        """This process as the holder after another."""
        epoch = before.epoch + 1 if before else 1
        return cls(epoch, os.getpid(), socket.gethostname(), run.seen_from(store), now.isoformat(), released=False)

    @property
    def name(self) -> str:
        """The file it stands in."""
        return record_name(self.epoch)

    @property
    def is_over(self) -> bool:
        """Whether all who spent for it have stopped, once it is a predecessor: released, or waited out."""
        return self.released or self.renewal is not None

    def is_known_dead(self) -> bool:
        """Whether it is a process of this machine that is no longer there. A process elsewhere may be."""
        if self.host != socket.gethostname() or self.released:
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            pass
        return False

    def record(self) -> bytes:
        """The bytes of that file."""
        fields: dict[str, Any] = asdict(self)
        if self.renewal is None:
            del fields["renewal"]
        return json.dumps(fields).encode()


_HOLDER = TypeAdapter(Holder)


def record_name(epoch: int) -> str:
    """The file that names the holder of an epoch."""
    return f"lease/{epoch:06d}.json"


def last_holder(folder: Folder) -> Holder | None:
    """Who held the store last, or holds it now; None where nobody ever did."""
    records = lease_records(folder)
    return read_holder(folder, records[-1]) if records else None


def lease_records(folder: Folder) -> list[str]:
    """The files that name the holders of all epochs, in their order."""
    return [name for name in folder.list("lease") if name.endswith(".json")]


def read_holder(folder: Folder, name: str) -> Holder:
    """The holder that a file of the lease names.

    Raises:
        DamagedFile: it names none.
    """
    try:
        holder = _HOLDER.validate_json(folder.get(name))
        if holder.name != name:
            raise ValueError("is the record of another epoch")
        return holder
    except ValueError:
        raise DamagedFile(
            f"the store's {name}, which says who held it, cannot be read. If no other `hab` works on this store, put "
            "it back from a backup or delete it, and give the same command again; no reply is lost, but the "
            "budget of a run no longer counts what was spent under a lease that is deleted"
        ) from None


def take_epoch(folder: Folder, store: Location, holder: Holder) -> None:
    """Create the record of an epoch. Of several takers one wins.

    Raises:
        StoreHeld: another one did.
    """
    try:
        folder.put_new(holder.name, holder.record())
    except Exception as error:  # it may have been written although the answer got lost
        try:
            present = read_holder(folder, holder.name)
        except FileNotFoundError:
            raise error from None
        if present != holder:
            raise held(store, present) from None


class Lease(Protocol):
    """The right to spend from a store, held until `release` or the end of the process.

    `clean` says whether nobody who worked for the holder before can still spend. Where that one had a lock and has
    crashed, the first online call waits `UNCLEAN_WAIT_S`, because an orphaned Ray actor was seen to work for 2.6 s
    after its driver's kill -9.
    """

    clean: bool

    @property
    def epoch(self) -> int:
        """This holder's number."""

    @property
    def age_s(self) -> float:
        """How long ago, in seconds, the holding of it was last confirmed; infinite once it is lost."""

    @property
    def elsewhere(self) -> RemoteWatch:
        """A new watch for spenders in another process."""

    def watch(self) -> Watch:
        """A watch for spenders in this process."""

    def release(self) -> None:
        """Give the store back; the next driver starts without the wait after a crash, unless the disk is full."""


Predecessor = Callable[[Folder], Holder | None]


class LocalLease:
    """The lease of a store that this machine alone works on: an exclusive lock."""

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
    def acquire(cls, store: Location, run: Location, now: datetime, predecessor: Predecessor = last_holder) -> Self:
        """Take the lease of a store for a run, after a `predecessor` that is known to spend no more.

        Raises:
            StoreHeld: another driver has it.
        """
        folder = open_folder(store.absolute())
        lock = StoreLock.taken(store, fcntl.LOCK_EX)
        try:
            before = predecessor(folder)
            holder = Holder.after(before, store, run, now)
            take_epoch(folder, store, holder)
        except BaseException:
            lock.release()
            raise
        return cls(lock, folder, holder, clean=before is None or before.is_over)

    def watch(self) -> Watch:
        return self.elsewhere

    def release(self) -> None:
        with suppress(OSError):
            self._folder.put(self._holder.name, replace(self._holder, released=True).record())
        self._lock.release()


class StoreLock:
    """A flock on a store on disk: exclusive for a holder that relies on it, shared for one that renews its lease.

    The two kinds of holder on one machine exclude each other by it.
    """

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    @classmethod
    def taken(cls, store: Location, kind: int) -> Self:
        """Take it (`LOCK_EX` or `LOCK_SH`).

        Raises:
            StoreHeld: another process has it.
            OSError: the file system has no locks.
        """
        locks = store.path / "lease"
        make_folder(locks, store.path)
        handle = open_new(locks / "lock", store.path, os.O_RDWR)
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise held(store, last_holder(open_folder(store))) from None
        except OSError:
            os.close(handle)
            raise
        return cls(handle)

    def release(self) -> None:
        """Give it back; a second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def held(store: Location, holder: Holder | None) -> StoreHeld:
    """The error of whoever cannot have the store."""
    return StoreHeld(
        f"the store at {store} is held by {described(store, holder)}: one driver spends from a store at a time; "
        "wait for it to end"
    )


def described(store: Location, holder: Holder | None) -> str:
    """Who holds a store, in one line."""
    if holder is None or holder.released:
        return "another process that has just started"
    return named(store, holder)


def named(store: Location, holder: Holder) -> str:
    """A holder, past or present, in one line."""
    run = store.follow(holder.run)
    return one_line(f"process {holder.pid} on {holder.host}, run {run}, since {holder.since}")


class LeaseWatch:
    """What every spender asks before each call: is the epoch it works for still the newest?

    The folder is listed at most every `WATCH_EVERY_S` by the clock given (seconds, monotonic).
    """

    is_locked = True

    def __init__(self, folder: Folder, epoch: int, clock: Callable[[], float]) -> None:
        self._folder, self._epoch, self._clock = folder, epoch, clock
        self._looked_at = float("-inf")

    def check(self) -> None:
        now = self._clock()
        if now - self._looked_at < WATCH_EVERY_S:
            return
        holder = last_holder(self._folder)
        if holder is None or holder.epoch != self._epoch or holder.released:
            raise LeaseLost(f"the lease of epoch {self._epoch} has ended: nothing more is spent under it")
        self._looked_at = now

    def hear(self, heard: RenewalAge | None) -> float:
        return self._clock()
