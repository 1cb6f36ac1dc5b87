"""Taking the lease of a store: which kind it has, and waiting out a holder that may be dead."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

from hab_ray.config.sections import LeaseTimes
from hab_ray.errors import StoreHeld
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.lease.lease import Holder, Lease, LocalLease, described, held, last_holder
from hab_ray.storage.lease.renewed import RenewedLease
from hab_ray.storage.lease.watches import awake_clock
from hab_ray.storage.reach import refuse_without_put_new
from hab_ray.storage.run import SWEEP

LOOKS_PER_RENEWAL = 10


@dataclass(frozen=True)
class LeaseTerms:
    """How a store is to be held. `say` tells the user why the command waits; `check` raises to end the wait."""

    times: LeaseTimes = field(default_factory=LeaseTimes)
    shared_filesystem: bool = False
    say: Callable[[str], None] = lambda _: None
    check: Callable[[], None] = lambda: None


def acquire_lease(store: Location, run: Location, now: datetime, terms: LeaseTerms) -> Lease:
    """Take the lease of a store for a run. Ctrl-C ends the wait for a holder that may be dead.

    Raises:
        StoreHeld: another driver has it.
    """
    succession = LeaseTakeover(store, terms, awake_clock, time.sleep)
    lease: Lease
    refuse_without_put_new(open_folder(store), f"store {store}")
    try:
        if not store.is_local or terms.shared_filesystem:
            lease = RenewedLease.acquire(store, run, now, terms.times, succession.predecessor)
        else:
            lease = LocalLease.acquire(store, run, now, succession.predecessor)
    except StoreHeld as error:
        raise StoreHeld(f"{error}{_other_store(store, run)}") from None
    try:
        succession.settle()
    except BaseException:
        lease.release()
        raise
    return lease


def _other_store(store: Location, run: Location) -> str:
    """What else a run may do that cannot have a store; one that has begun keeps its store."""
    if run.is_same(store) or open_folder(run).exists(SWEEP):
        return ""
    other = shlex.quote(f"{store}-{run.name}")
    return f", or give the same command again with --store {other}, which works if the two call different accounts"


class LeaseTakeover:
    """Finds out whether the holder of a store is gone: by a released record, or by one that does not change.

    A record without a renewal is a lock's: whoever asks has the lock by now.
    """

    def __init__(
        self, store: Location, terms: LeaseTerms, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._store, self._terms, self._clock, self._sleep = store, terms, clock, sleep
        self._outwaited: Holder | None = None
        self._looked_at = 0.0

    def predecessor(self, folder: Folder) -> Holder | None:
        """The last holder, once it is known to spend no more; None where there was none.

        Raises:
            StoreHeld: it lives, or another taker was faster.
        """
        holder = last_holder(folder)
        if holder is None or holder.released or holder.renewal is None:
            return holder
        take_s = max(self._terms.times.take_s, holder.renewal.take_s)
        every_s = min(self._terms.times.renew_s, holder.renewal.renew_s) / LOOKS_PER_RENEWAL
        self._terms.say(
            f"the store at {self._store} was last held by {described(self._store, holder)}. Waiting {take_s:g} s for a "
            f"sign of life: if it has ended, this command goes on then; if it lives, this command ends within about "
            f"{holder.renewal.renew_s:g} s. Ctrl-C ends the wait"
        )
        return self._waited_out(folder, holder, take_s, every_s)

    def _waited_out(self, folder: Folder, holder: Holder, take_s: float, every_s: float) -> Holder | None:
        assert holder.renewal is not None
        unchanged_since = self._clock()
        while True:
            self._sleep(every_s)
            self._terms.check()
            self._looked_at = self._clock()
            try:
                seen = last_holder(folder)
            except OSError:
                unchanged_since = inf  # the storage is away, for the holder too
                continue
            if seen is None or seen.released:
                return seen
            if seen != holder:
                raise held(self._store, seen)
            if unchanged_since == inf or self._clock() - self._looked_at > holder.renewal.renew_s:
                unchanged_since = self._clock()
            elif self._looked_at - unchanged_since >= take_s:
                break
        self._terms.say(f"it has not renewed its lease for {take_s:g} s: taking over")
        self._outwaited = holder
        return holder

    def settle(self) -> None:
        """Having taken over slowly, wait until a holder that came back to life meanwhile must have noticed.

        One that was cut off from storage looks for a successor one renewal after its return, see `renewed`.
        """
        before = self._outwaited and self._outwaited.renewal
        if before and self._clock() - self._looked_at > before.renew_s:
            self._sleep(before.lost_s)
