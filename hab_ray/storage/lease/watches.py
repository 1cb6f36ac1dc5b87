"""Watches: checks that spenders make before each call to see whether the lease is still held.

The holder of a lease on storage renews it every few seconds (`renewed`), and spenders in other processes must not
outlive it. They do not read the storage: the driver sends them the age of the last renewal, and they extrapolate by
their own clock.

    driver                                     spender in another process
    stamp = hear(None)            ────────>    its clock: 100.0                       (any delay)
    age = 3.0, then hear(age, 100.0) ─────>    the renewal began at 100.0 - 3.0 or later: spend until 97.0 + lost_s

The stamp makes this safe: the driver measures the age after the stamp was taken, so the renewal began no earlier than
`stamp - age` by the spender's clock, however long the messages took. An age alone would count from its arrival, so a
message delivered a minute late would revive a spender whose lease was taken over meanwhile.
"""

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
    """Return monotonic seconds that, unlike `time.monotonic` on Linux, include the time a machine is suspended."""
    return time.clock_gettime(_CLOCK)


class Watch(Protocol):
    """A spender's check of the lease.

    `is_locked` means that no other process can take the lease while its holder's process exists, even if stopped.
    """

    is_locked: bool

    def check(self) -> None:
        """Check that the lease is held.

        Raises:
            LeaseStale: the lease may have been lost; check again later.
            LeaseLost: the lease has ended.
        """


@dataclass(frozen=True)
class RenewalAge:
    """A driver's message to a watch: its last renewal began at most `age_s` seconds ago; infinite once lost.

    The driver measured the age after the watch's clock showed `stamp`.
    """

    age_s: float
    stamp: float


class RemoteWatch(Watch, Protocol):
    """A watch in a process other than the lease holder's. It can be pickled before its first use."""

    def hear(self, heard: RenewalAge | None) -> float:
        """Process a message of the driver and return the stamp for its next one."""


async def until_held(check: Callable[[], None]) -> None:
    """Wait while `check` raises LeaseStale.

    Raises:
        LeaseLost: the lease has ended. Other errors of `check` are raised too.
    """
    while True:
        try:
            return check()
        except LeaseStale:
            await asyncio.sleep(STALE_CHECK_S)


def wait_until_held(check: Callable[[], None]) -> None:
    """Block the thread while `check` raises LeaseStale; otherwise as `until_held`."""
    while True:
        try:
            return check()
        except LeaseStale:
            time.sleep(STALE_CHECK_S)


class RemoteLeaseCheck:
    """A watch that allows spending until `lost_s` after the last reported renewal, and not before the first report."""

    is_locked = False

    def __init__(self, epoch: int, clock: Callable[[], float], lost_s: float) -> None:
        self._epoch, self._clock, self._lost_s = epoch, clock, lost_s
        self._renewed_at = -inf
        self._stamp = -inf
        self._is_lost = False

    def hear(self, heard: RenewalAge | None) -> float:
        """Process a message, but ignore the age if its stamp is not the last one.

        An older stamp may be of another machine's clock, if Ray restarted this actor here.
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
    """Return the message of `LeaseStale`."""
    return f"the lease of epoch {epoch} was not renewed for {lost_s:g} s: nothing is spent under it until it is"
