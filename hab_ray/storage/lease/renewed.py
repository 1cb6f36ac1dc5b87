"""The lease of a store that several machines use: a record that its holder keeps rewriting.

The record `lease/<epoch>.json` has a counter and a random nonce. The protocol relies on no wall clock:

- The holder rewrites the record every `renew_s`. A renewal counts from the instant before its first request. While the
  last one is older than `lost_s`, nothing is spent: `check` reads the clock at each spend, so a process that was
  stopped and continued is covered too.
- A taker (see `takeover`) writes the next epoch only after it saw the record unchanged for `take_s` by its own clock.
  Since `lost_s` is below `take_s`, the holder has stopped spending by then.
- A holder that finds the next epoch, or a record in its place that it did not write, has lost the lease for good. Its
  late writes affect only the file of its own epoch, which is no longer the newest.
- A holder that was cut off from storage for longer than `lost_s` may resume if nobody took the store. A taker that
  read the old record just before may still be about to write the next epoch. So the first renewal after a gap does
  not count; the second, at least `renew_s` later, finds the next epoch if it was written in time. A slower taker waits
  until a holder that resumed must have found the next epoch (see `takeover`).
"""

import errno
import fcntl
import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import Self

from hab_ray.config.sections import LeaseTimes
from hab_ray.errors import DamagedFile, LeaseLost, LeaseStale
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.lease.lease import (
    FindPredecessor,
    Holder,
    Renewal,
    StoreLock,
    describe,
    read_holder,
    record_name,
    take_epoch,
)
from hab_ray.storage.lease.watches import RemoteLeaseCheck, RemoteWatch, Watch, awake_clock, stale_message

log = logging.getLogger("hab_ray.storage")
RETRIES_PER_RENEWAL = 10
JOIN_S = 1.0
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class Renewals:
    """The holder's side of a renewed lease. Call `renew` periodically and `check` before each spend, in any thread.

    `began` is the time by `clock` at which the request that took the epoch began.
    """

    is_locked = False

    def __init__(
        self, folder: Folder, store: Location, holder: Holder, began: float, clock: Callable[[], float]
    ) -> None:
        assert holder.renewal is not None
        self._folder, self._store, self._holder, self._clock = folder, store, holder, clock
        self._renewal = holder.renewal
        self._confirmed = began
        self._resumed: tuple[float, float] | None = None
        self._lost: str | None = None

    @property
    def age_s(self) -> float:
        """Seconds since the start of the last renewal that counts; infinite once the lease is lost."""
        return inf if self._lost else self._clock() - self._confirmed

    def check(self) -> None:
        if self._lost:
            raise LeaseLost(self._lost)
        if self._clock() - self._confirmed > self._renewal.lost_s:
            raise LeaseStale(stale_message(self._holder.epoch, self._renewal.lost_s))

    def renew(self) -> None:
        """Rewrite the record.

        Raises:
            LeaseLost: another process has the store, and this holder has lost it for good.
            OSError, HabError: the storage failed. The record may have been written or not.
        """
        began = self._clock()
        self._refuse_successor()
        self._renewal = next_renewal(self._renewal)
        self._holder = replace(self._holder, renewal=self._renewal)
        self._folder.put(self._holder.name, self._holder.record())
        self._count(began, self._clock())

    def _refuse_successor(self) -> None:
        """Check for the next epoch and a foreign record in this one.

        A higher epoch cannot exist without the next one: takers use `put_new` on the newest epoch plus one.
        """
        following = record_name(self._holder.epoch + 1)
        if self._folder.exists(following):
            self._lose(self._writer_of(following))
        try:
            present = read_holder(self._folder, self._holder.name).renewal
        except (FileNotFoundError, DamagedFile):
            present = None
        if present is None or _owner(present) != _owner(self._renewal):
            self._lose(self._writer_of(self._holder.name))

    def _writer_of(self, name: str) -> str:
        try:
            return describe(self._store, read_holder(self._folder, name))
        except (FileNotFoundError, DamagedFile):
            return f"an unknown process, because {name} was deleted or damaged"

    def _lose(self, by: str) -> None:
        self._lost = (
            f"the lease of epoch {self._holder.epoch} is lost, and nothing more is spent under it: the store "
            f"{self._store} was taken over by {by}. What was paid for is kept; when the store is free, the same "
            "command goes on"
        )
        raise LeaseLost(self._lost)

    def _count(self, began: float, ended: float) -> None:
        """Confirm the lease by a successful renewal; after a gap, only by the second one."""
        lost_s, resumed = self._renewal.lost_s, self._resumed
        if ended - self._confirmed <= lost_s:
            self._confirmed = began
        elif resumed is None or ended - resumed[0] > lost_s:
            self._resumed = began, ended
            log.warning(
                "%s: the lease was not renewed for %.0f s, so spending was paused; unless another driver has taken the "
                "store, it goes on in %g s",
                self._store,
                ended - self._confirmed,
                self._renewal.renew_s,
            )
        elif began - resumed[1] >= self._renewal.renew_s:
            self._confirmed, self._resumed = began, None

    def release(self) -> None:
        """Mark the store as free in the record, unless the lease is lost."""
        if self._lost is None:
            self._lost = f"the lease of epoch {self._holder.epoch} was given back: nothing more is spent under it"
            self._folder.put(self._holder.name, replace(self._holder, released=True).record())


class RenewedLease:
    """A lease that a background thread renews."""

    def __init__(
        self, renewals: Renewals, holder: Holder, times: LeaseTimes, clean: bool, lock: StoreLock | None
    ) -> None:
        self._renewals, self._holder, self._times, self._lock = renewals, holder, times, lock
        self.clean = clean
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep_renewing, name="lease", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(
        cls, store: Location, run: Location, now: datetime, times: LeaseTimes, find_predecessor: FindPredecessor
    ) -> Self:
        folder, lock = open_folder(store), _shared_lock(store)
        try:
            before = find_predecessor(folder)
            holder = replace(Holder.after(before, store, run, now), renewal=first_renewal(times))
            began = awake_clock()
            take_epoch(folder, store, holder)
        except BaseException:
            if lock:
                lock.release()
            raise
        renewals = Renewals(folder, store, holder, began, awake_clock)
        return cls(renewals, holder, times, before is None or before.has_stopped, lock)

    @property
    def epoch(self) -> int:
        return self._holder.epoch

    @property
    def age_s(self) -> float:
        return self._renewals.age_s

    @property
    def elsewhere(self) -> RemoteWatch:
        return RemoteLeaseCheck(self.epoch, awake_clock, self._times.lost_s)

    def watch(self) -> Watch:
        return self._renewals

    def release(self) -> None:
        """Stop renewing and release the store.

        A renewal that hangs ends with the process; the next driver then waits until the lease is stale.
        """
        self._ending.set()
        self._thread.join(JOIN_S)
        with suppress(Exception):  # if storage fails, the next driver waits instead
            self._renewals.release()
        if self._lock:
            self._lock.release()

    def _keep_renewing(self) -> None:
        wait_s = self._times.renew_s
        while not self._ending.wait(wait_s):
            try:
                self._renewals.renew()
                wait_s = self._times.renew_s
            except LeaseLost:
                return
            except Exception:  # any failure of storage: retry soon, and let the lease grow stale meanwhile
                wait_s = self._times.renew_s / RETRIES_PER_RENEWAL


def next_renewal(renewal: Renewal) -> Renewal:
    """Return the renewal with the next counter and a new nonce of the same holder."""
    return replace(renewal, counter=renewal.counter + 1, nonce=f"{_owner(renewal)}-{secrets.token_hex(8)}")


def _owner(renewal: Renewal) -> str:
    return renewal.nonce.partition("-")[0]


def first_renewal(times: LeaseTimes) -> Renewal:
    """Return the first renewal of a new holder."""
    nonce = f"{secrets.token_hex(8)}-{secrets.token_hex(8)}"
    return Renewal(0, nonce, times.renew_s, times.lost_s, times.take_s)


def _shared_lock(store: Location) -> StoreLock | None:
    """Keep drivers with a `LocalLease` off a store on disk; None if the storage does not support locks."""
    if not store.is_local:
        return None
    try:
        return StoreLock.taken(store, fcntl.LOCK_SH)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
