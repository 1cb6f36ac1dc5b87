"""The end of a run: what is in flight is waited for as long as the drain allows, and what it brings is taken in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from hab_ray.catalog.prices import Mode
from hab_ray.executors.protocol import Channel, ChannelEnded, CountersRead, Service
from hab_ray.sweep.telling.counters import RunCounters

GRACE_S = 3.0
LOOK_EVERY_S = 0.1


class Ending:
    """Ends all services of a run, for which they have `limit_s`.

    Channels that do not end by then are left behind: what they had set aside for open
    calls counts as spent, because nobody will learn what those calls cost. `clock` is monotonic seconds.
    """

    def __init__(
        self,
        services: Sequence[Service],
        counters: RunCounters,
        clock: Callable[[], float],
        wait: Callable[[float], None],
    ) -> None:
        self._services, self._counters, self._clock, self._wait = services, counters, clock, wait
        self._open: set[Channel] = set()

    def run(self, limit_s: float, report: Callable[[float], None]) -> None:
        """Wait until all have ended or the time is over; `report` is given the seconds that are left."""
        ends_at = self._clock() + limit_s
        for service in self._services:
            service.stop(limit_s)
        for service in self._services:
            self._open.update(service.end())
        while self._open and self._clock() <= ends_at + GRACE_S:
            self._take_in_all()
            with suppress(OSError):  # a disk too full for a report has room kept for the replies that come
                report(max(0.0, ends_at - self._clock()))
            if self._open:
                self._wait(LOOK_EVERY_S)
        for channel in self._open:
            if channel.mode is Mode.ONLINE:  # an open batch is in the ledger, with what is set aside for it
                self._counters.write_off(channel)

    def _take_in_all(self) -> None:
        for service in self._services:
            for event in service.poll():
                match event:
                    case CountersRead(channel, counters):
                        self._counters.take_in(channel, counters)
                    case ChannelEnded(channel):
                        self._open.discard(channel)
                    case _:  # nothing is settled or dispatched any more
                        pass
