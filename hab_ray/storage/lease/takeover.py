"""Taking the lease of a store: choosing its kind, and waiting out a holder that may be dead."""

import fcntl
import secrets
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

from hab_ray.config.sections import LeaseTimes
from hab_ray.errors import ConfigError, StoreHeld
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.lease.lease import Holder, Lease, LocalLease, Renewal, StoreLock, describe, held_by, last_holder
from hab_ray.storage.lease.renewed import RenewedLease
from hab_ray.storage.lease.watches import awake_clock
from hab_ray.storage.run import SWEEP

READS_PER_RENEWAL = 10
CHECKED = "conditional-writes.txt"


@dataclass(frozen=True)
class LeaseTerms:
    """How to hold a store. `say` tells the user why the command waits; `check` raises to end the wait."""

    times: LeaseTimes = field(default_factory=LeaseTimes)
    shared_filesystem: bool = False
    say: Callable[[str], None] = lambda _: None
    check: Callable[[], None] = lambda: None


def acquire_lease(store: Location, run: Location, now: datetime, terms: LeaseTerms) -> Lease:
    """Take the lease of a store for a run. `terms.check` can end the wait for a holder that may be dead.

    Raises:
        StoreHeld: another driver holds it.
    """
    takeover = LeaseTakeover(store, terms, awake_clock, time.sleep)
    lease: Lease
    _refuse_without_put_new(open_folder(store), f"store {store}")
    try:
        if not store.is_local or terms.shared_filesystem:
            lease = RenewedLease.acquire(store, run, now, terms.times, takeover.find_predecessor)
        else:
            lease = LocalLease.acquire(store, run, now, takeover.find_predecessor)
    except StoreHeld as error:
        raise StoreHeld(f"{error}{_other_store(store, run)}") from None
    try:
        takeover.wait_for_revived_holder()
    except BaseException:
        lease.release()
        raise
    return lease


def _refuse_without_put_new(folder: Folder, where: str) -> None:
    """Check, once per store, that only one of two writers can create a name; `where` names the store in the message.

    Raises:
        ConfigError: both writers succeeded.
    """
    if not folder.is_remote or folder.exists(CHECKED):
        return
    name = f"check-{secrets.token_hex(8)}"
    folder.put_new(name, b"first")
    try:
        folder.put_new(name, b"second")
    except FileExistsError:
        is_safe = folder.get(name) == b"first"
    else:
        is_safe = False
    finally:
        folder.delete(name)
    if not is_safe:
        raise ConfigError(
            f"{where}: this S3 service ignores `If-None-Match: *`, so two drivers could hold one store and pay twice; "
            "use one with conditional writes, such as AWS, Ceph, SeaweedFS or a recent MinIO"
        )
    folder.put(CHECKED, b"Of two writers of one new name only one succeeds here; hab_ray has looked.\n")


def refuse_held(store: Location, run: Location) -> None:
    """Check that no process on this machine holds a store on disk, without taking its lease.

    Raises:
        StoreHeld: one does.
    """
    holder = last_holder(open_folder(store)) if store.is_local else None
    if holder and not holder.released:
        try:
            StoreLock.taken(store, fcntl.LOCK_EX).release()
        except StoreHeld as error:
            raise StoreHeld(f"{error}{_other_store(store, run)}") from None


def held_notice(store: Location, run: Location) -> str | None:
    """Return who on this machine holds a store on disk, as `refuse_held` says it; None if nobody does."""
    try:
        refuse_held(store, run)
    except StoreHeld as error:
        return str(error)
    return None


def _other_store(store: Location, run: Location) -> str:
    """Suggest another store for a run that has not begun; a started run must keep its store."""
    if run.is_same(store) or open_folder(run).exists(SWEEP):
        return ""
    other = shlex.quote(f"{store}-{run.name}")
    return f", or run the same command again with --store {other}, which works if the two call different accounts"


class LeaseTakeover:
    """The takeover of a store whose last holder has stopped: its record is released, or does not change.

    A record without a renewal belongs to the lock, which the caller already holds.
    """

    def __init__(
        self, store: Location, terms: LeaseTerms, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._store, self._terms, self._clock, self._sleep = store, terms, clock, sleep
        self._waited_out: Renewal | None = None
        self._read_at = 0.0

    def find_predecessor(self, folder: Folder) -> Holder | None:
        """Wait until the last holder is known to have stopped spending, and return it; None if there was none.

        Raises:
            StoreHeld: the holder is alive, or another taker was faster.
        """
        holder = last_holder(folder)
        if holder is None or holder.released or holder.renewal is None:
            return holder
        take_s = max(self._terms.times.take_s, holder.renewal.take_s)
        every_s = min(self._terms.times.renew_s, holder.renewal.renew_s) / READS_PER_RENEWAL
        self._terms.say(
            f"the store at {self._store} was last held by {describe(self._store, holder)}. Waiting {take_s:g} s for a "
            f"sign of life: if it has ended, this command goes on then; if it lives, this command ends within about "
            f"{holder.renewal.renew_s:g} s. Ctrl-C ends the wait"
        )
        return self._wait_out(folder, holder, holder.renewal, take_s, every_s)

    def _wait_out(
        self, folder: Folder, holder: Holder, renewal: Renewal, take_s: float, every_s: float
    ) -> Holder | None:
        unchanged_since = self._clock()
        while True:
            self._sleep(every_s)
            self._terms.check()
            self._read_at = self._clock()
            try:
                seen = last_holder(folder)
            except OSError:
                unchanged_since = inf  # storage may be unreachable for the holder too: start over
                continue
            if seen is None or seen.released:
                return seen
            if seen != holder:
                raise held_by(self._store, seen)
            if unchanged_since == inf or self._clock() - self._read_at > renewal.renew_s:
                unchanged_since = self._clock()
            elif self._read_at - unchanged_since >= take_s:
                break
        self._terms.say(f"it has not renewed its lease for {take_s:g} s: taking over")
        self._waited_out = renewal
        return holder

    def wait_for_revived_holder(self) -> None:
        """After a slow takeover, wait until a holder that resumed meanwhile must have found the new epoch.

        A holder that was cut off from storage looks for a successor one renewal after it resumes, see `renewed`.
        """
        before = self._waited_out
        if before and self._clock() - self._read_at > before.renew_s:
            self._sleep(before.lost_s)
