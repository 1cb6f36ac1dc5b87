"""The keys that have an outcome, as an engine asks for them: one at a time, while more are added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hab_ray.storage.keyindex import Keys, may_merge

_SLOTS_PER_KEY = 4
_FEWEST_SLOTS = 1 << 12


class KnownKeys:
    """A set of keys in about 40 bytes each.

    A table with a byte per slot answers for most keys that are not in the set; only for the others are the sorted
    runs searched, which takes some 50 microseconds.
    """

    def __init__(self, runs: Iterable[Keys] = ()) -> None:
        self._runs = list(runs)
        self._grow()

    def __contains__(self, key: str) -> bool:
        if not self._slots[int(key[:16], 16) & (len(self._slots) - 1)]:
            return False
        wanted = Keys.of([key])
        return any(len(run.find(wanted)[0]) for run in self._runs)

    def __len__(self) -> int:
        """How many keys were taken in; one that came twice may count twice."""
        return sum(map(len, self._runs))

    def __iter__(self) -> Iterator[str]:
        """Each key, in no order; one that came twice may come twice."""
        return (run.hex(position) for run in self._runs for position in range(len(run)))

    def add(self, keys: Sequence[str]) -> None:
        """Take in more keys; one that is there already does no harm."""
        new = Keys.of(keys)
        run = new.at(new.order())
        if not len(run):
            return
        while self._runs and may_merge(len(self._runs[-1]), len(run)):
            both = run.joined(self._runs.pop())
            run = both.at(both.order())
        self._runs.append(run)
        if len(self) * _SLOTS_PER_KEY > len(self._slots):
            self._grow()
        else:
            self._mark(new)

    def _grow(self) -> None:
        """Make the table anew, with twice the slots that the keys need now."""
        needed = max(_FEWEST_SLOTS, 2 * _SLOTS_PER_KEY * len(self))
        self._slots = bytearray(1 << (needed - 1).bit_length())
        for run in self._runs:
            self._mark(run)

    def _mark(self, keys: Keys) -> None:
        slots = np.frombuffer(self._slots, dtype=np.uint8)
        slots[keys.heads & np.uint64(len(self._slots) - 1)] = 1
