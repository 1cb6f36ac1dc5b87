"""What spenders ask before each call: may anything be spent under this lease?

The holder of a lease on storage renews it every few seconds (`renewed`), and spenders in other processes must not
outlive it. They do not look at the storage: the driver tells them how old the last renewal is, and they count on from
there by their own clock.

    driver                                     spender in another process
    stamp = hear(None)            ────────>    its clock: 100.0                       (any delay)
    age = 3.0, then hear(age, 100.0) ─────>    the renewal began at 100.0 - 3.0 or later: spend until 97.0 + lost_s

The stamp makes it safe: the age was taken after the stamp, so the renewal is no older than `stamp - age` by the
spender's clock, however long either message was under way. An age alone would count from its arrival, and a message
that a broken network delivers a minute late would revive a spender whose lease was taken over meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from hab_ray.errors import LeaseLost, LeaseStale

STALE_CHECK_S = 0.2
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def awake_clock() -> float:
    """Monotonic seconds that also pass while the machine sleeps, unlike `time.monotonic` on Linux."""
    return time.clock_gettime(_CLOCK)


class Watch(Protocol):
    """Tells a spender whether it may spend.

    `is_locked`: nobody can take the lease over as long as its holder's process exists, be it stopped.
    """

    is_locked: bool

    def check(self) -> None:
        """Return while the lease is held.

        Raises:
            LeaseStale: it is not known whether it is; ask again.
            LeaseLost: it has ended.
        """


@dataclass(frozen=True)
class RenewalAge:
    """What a driver says: its last renewal began `age_s` seconds before, or later; infinite once the lease is lost.

    The age was taken after the listener's clock showed `stamp`.
    """

    age_s: float
    stamp: float


class RemoteWatch(Watch, Protocol):
    """A watch in another process than the lease's holder. One that was not used yet can be pickled."""

    def hear(self, heard: RenewalAge | None) -> float:
        """Take in what the driver says; the stamp for what it says next."""


async def until_held(check: Callable[[], None]) -> None:
    """Wait while a lease is stale.

    Raises:
        LeaseLost: it has ended; and whatever else `check` raises.
    """
    while True:
        try:
            return check()
        except LeaseStale:
            await asyncio.sleep(STALE_CHECK_S)


def wait_until_held(check: Callable[[], None]) -> None:
    """As `until_held`, for a thread that may sleep."""
    while True:
        try:
            return check()
        except LeaseStale:
            time.sleep(STALE_CHECK_S)


class RemoteLeaseCheck:
    """Ends spending `lost_s` after the last renewal that it has heard of, by its own clock; until it has heard too."""

    is_locked = False

    def __init__(self, epoch: int, clock: Callable[[], float], lost_s: float) -> None:
        self._epoch, self._clock, self._lost_s = epoch, clock, lost_s
        self._renewed_at = -inf
        self._stamp = -inf
        self._is_lost = False

    def hear(self, heard: RenewalAge | None) -> float:
        """What answers another stamp than the last changes nothing: this actor may have been started anew on another
        machine, whose clock has nothing to do with that of the first.
        """
        if heard is not None and heard.stamp == self._stamp:
            self._renewed_at = max(self._renewed_at, heard.stamp - heard.age_s)
        if heard is not None:
            self._is_lost |= heard.age_s == inf
        self._stamp = self._clock()
        return self._stamp

    def check(self) -> None:
        if self._is_lost:
            raise LeaseLost(f"the lease of epoch {self._epoch} is lost: nothing more is spent under it")
        if self._clock() - self._renewed_at > self._lost_s:
            raise LeaseStale(stale_message(self._epoch, self._lost_s))


def stale_message(epoch: int, lost_s: float) -> str:
    """Why nothing is spent while a lease is too old."""
    return f"the lease of epoch {epoch} was not renewed for {lost_s:g} s: nothing is spent under it until it is"
