"""Ends the services of a run: waits for calls in flight during the drain, and counts their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from hab_ray.catalog.prices import Mode
from hab_ray.executors.protocol import ChannelEnded, CountersRead, Service
from hab_ray.sweep.monitoring.counters import RunCounters

GRACE_S = 3.0
LOOK_EVERY_S = 0.1


def end_services(
    services: Sequence[Service],
    counters: RunCounters,
    limit_s: float,
    report: Callable[[float], None],
    clock: Callable[[], float],
    wait: Callable[[float], None],
) -> None:
    """End all services of a run within `limit_s`; call `report` with the seconds left.

    Channels that have not ended by then are abandoned. What they reserved for open calls counts as spent, because the
    cost of those calls will never be known. `clock` returns monotonic seconds.
    """
    ends_at = clock() + limit_s
    for service in services:
        service.stop(limit_s)
    under_way = {channel for service in services for channel in service.end()}
    while under_way and clock() <= ends_at + GRACE_S:
        for event in [event for service in services for event in service.poll()]:
            match event:  # nothing is settled or dispatched any more
                case CountersRead(channel, counted):
                    counters.update(channel, counted)
                case ChannelEnded(channel):
                    under_way.discard(channel)
        with suppress(OSError):  # a disk too full for a report still has reserved space for incoming replies
            report(max(0.0, ends_at - clock()))
        if under_way:
            wait(LOOK_EVERY_S)
    for channel in under_way:
        if channel.mode is Mode.ONLINE:  # an open batch is in the ledger, with its reservation
            counters.write_off(channel)
