"""The end of a run: what is in flight is waited for as long as the drain allows, and what it brings is taken in.

Lanes and batch engines that do not end by then (their process died, or hangs) are left behind: what they had set
aside for open calls counts as spent, because nobody will learn what those calls cost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hab_ray.engine.jobs import Counters
from hab_ray.errors import EngineBroke, HabError
from hab_ray.sweep.batches import Batches

if TYPE_CHECKING:
    from hab_ray.cluster.lanes import Lanes

GRACE_S = 3.0
LOOK_EVERY_S = 0.1
ANSWER_S = 1.0


class Ending:
    """Lanes and batches on their way to their end, for which they have `limit_s`. `left_behind` did not end well."""

    def __init__(self, lanes: Lanes | None, batches: Batches, limit_s: float) -> None:
        self._lanes, self._batches = lanes, batches
        self._give_up_at = time.monotonic() + limit_s + GRACE_S
        self._open: dict[str, Any] = dict(lanes.end()) if lanes else {}
        self._desk: Future[None] | None = batches.end()
        self.left_behind: list[str] = []

    def tallies(self) -> Iterator[Mapping[str, Counters]]:
        """What each lane says, again and again until all have ended or the time is over; the last word counts."""
        while self._open or self._desk:
            yield {**self._last_of_lanes(), **self._last_of_batches(), **self._so_far()}
            if time.monotonic() > self._give_up_at:
                self.left_behind.extend(self._open)
                return
            time.sleep(LOOK_EVERY_S)
        self._batches.close()

    def _last_of_lanes(self) -> dict[str, Counters]:
        if not self._open:
            return {}
        from hab_ray.cluster.session import finished, result

        last: dict[str, Counters] = {}
        done = finished(list(self._open.values()), timeout_s=0)
        for provider in [name for name, ref in self._open.items() if ref in done]:
            try:
                last[provider] = result(self._open.pop(provider), provider, ANSWER_S)
            except (HabError, OSError):
                self.left_behind.append(provider)
        return last

    def _last_of_batches(self) -> Mapping[str, Counters]:
        if self._desk is None or not self._desk.done():
            return {}
        self._desk = None
        return self._batches.last_tallies()

    def _so_far(self) -> Mapping[str, Counters]:
        """What is said meanwhile by those that have not ended; nothing of lanes where one cannot say it."""
        told: dict[str, Counters] = dict(self._batches.last_tallies()) if self._desk else {}
        if self._lanes and self._open:
            with suppress(EngineBroke):
                told.update(self._lanes.tallies(self._open, ANSWER_S))
        return told


def written_off(tally: Counters) -> Counters:
    """The last word of a lane that did not end: what it had in flight is cut off and counts as spent."""
    return replace(
        tally,
        in_flight=Counter(),
        reserved_nanousd=0,
        lost_nanousd=tally.lost_nanousd + tally.reserved_nanousd,
        spent_nanousd=tally.spent_nanousd + tally.reserved_nanousd,
        cut=tally.cut + tally.in_flight,
        cut_nanousd=tally.cut_nanousd + tally.reserved_nanousd,
    )
