"""Sets and indexes of millions of keys, in 40 bytes each.

A key is a sha256, so its first 8 bytes are as good as a random number: they are sorted and searched as integers, and
the other 24 decide. Sorted runs are merged so that each is at least twice as long as the next, up to
`MAX_MERGED`: adding stays cheap, and no merge needs memory for all keys at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

KEY_BYTES = 32
MAX_MERGED = 1 << 18

_HEAD = np.dtype(">u8")
_TAIL = np.dtype("S24")
_WHOLE = np.dtype([("head", _HEAD), ("tail", _TAIL)])
_ROW_BITS = 32
_SLOTS_PER_KEY = 4
_MIN_SLOTS = 1 << 12

Positions = NDArray[np.intp]


@dataclass(frozen=True)
class RowPlace:
    """The number of a file, and the row in it."""

    file: int
    row: int


@dataclass(frozen=True)
class Keys:
    """Keys in any order: the first 8 bytes of each as an integer, the rest, and its file and row as one integer."""

    heads: NDArray[np.uint64]
    tails: NDArray[np.bytes_]
    places: NDArray[np.uint64]

    @classmethod
    def of(cls, keys: Collection[str]) -> Self:
        """Keys from their 64 hexadecimal digits, as the rows of file 0.

        Raises:
            ValueError: one is no such key.
        """
        raw = bytes.fromhex("".join(keys))
        if len(raw) != KEY_BYTES * len(keys):
            raise ValueError("a key is not 64 hexadecimal digits long")
        return cls.of_bytes(raw)

    @classmethod
    def of_bytes(cls, raw: bytes | memoryview) -> Self:
        """Keys from their bytes, `KEY_BYTES` each, one after the other, as the rows of file 0."""
        whole = np.frombuffer(raw, dtype=_WHOLE)
        rows = np.arange(len(whole), dtype=np.uint64)
        return cls(whole["head"].astype(np.uint64), whole["tail"].copy(), rows)

    def __len__(self) -> int:
        return len(self.heads)

    def __iter__(self) -> Iterator[str]:
        """The 64 hexadecimal digits of each."""
        for head, tail in zip(self.heads.tolist(), self.tails.tolist(), strict=True):
            yield head.to_bytes(8, "big").hex() + tail.ljust(KEY_BYTES - 8, b"\0").hex()

    def at(self, positions: Positions | NDArray[np.bool_]) -> Keys:
        return Keys(self.heads[positions], self.tails[positions], self.places[positions])

    def in_file(self, file: int) -> Keys:
        """The keys of file 0 as those of another."""
        return replace(self, places=self.places | np.uint64(file << _ROW_BITS))

    def before(self, other: Keys) -> Keys:
        """The keys of both, sorted by their heads; of a repeated key only the first, this one's before the other's."""
        return Keys(
            np.concatenate([self.heads, other.heads]),
            np.concatenate([self.tails, other.tails]),
            np.concatenate([self.places, other.places]),
        ).in_order()

    def in_order(self) -> Keys:
        """The keys, sorted by their heads; of a repeated key only the first."""
        order = np.argsort(self.heads, kind="stable")
        heads, tails = self.heads[order], self.tails[order]
        repeated = np.zeros(len(order), dtype=np.bool_)
        repeated[1:] = (heads[1:] == heads[:-1]) & (tails[1:] == tails[:-1])
        return self.at(order[~repeated])

    def find(self, wanted: Keys) -> tuple[Positions, Positions]:
        """Which of the wanted keys are among these, which must be sorted, and at which positions."""
        at = np.searchsorted(self.heads, wanted.heads)
        looking = np.arange(len(wanted))
        found = np.zeros(len(wanted), dtype=np.bool_)
        while len(looking):  # once more for each further key with the same head, which next to none has
            looking = looking[at[looking] < len(self)]
            looking = looking[self.heads[at[looking]] == wanted.heads[looking]]
            same = self.tails[at[looking]] == wanted.tails[looking]
            found[looking[same]] = True
            looking = looking[~same]
            at[looking] += 1
        hits = np.flatnonzero(found)
        return hits, at[hits]


class KeyIndex:
    """Where keys are; the newest place of a key counts. `runs` are sorted, without a repeated key in one of them."""

    def __init__(self, runs: Iterable[Keys] = ()) -> None:
        self._runs = list(runs)

    def __len__(self) -> int:
        """How many keys there are; one that came twice may count twice."""
        return sum(map(len, self._runs))

    def __iter__(self) -> Iterator[str]:
        """Each key, in no order; one that came twice may come twice."""
        return chain.from_iterable(self._runs)

    def add(self, keys: Collection[str]) -> None:
        """Note keys whose places do not count."""
        self.add_keys(Keys.of(keys))

    def add_keys(self, keys: Keys) -> None:
        """Note keys with their places."""
        run = keys.in_order()
        while self._runs and _may_merge(self._runs[-1], run):
            run = run.before(self._runs.pop())
        if len(run):
            self._runs.append(run)

    def places(self, keys: Sequence[str]) -> dict[str, RowPlace]:
        """The places of those keys that are known."""
        found: dict[str, RowPlace] = {}
        if not keys:
            return found
        wanted = Keys.of(keys)
        for run in self._runs:
            hits, at = run.find(wanted)
            for i, place in zip(hits.tolist(), run.places[at].tolist(), strict=True):
                found[keys[i]] = RowPlace(place >> _ROW_BITS, place & ((1 << _ROW_BITS) - 1))
        return found

    def sorted_keys(self) -> list[Keys]:
        """All keys in a few sorted runs, which share this index's memory."""
        return list(self._runs)


def _may_merge(older: Keys, newer: Keys) -> bool:
    """Whether two neighbouring runs become one."""
    return len(older) < 2 * len(newer) and len(older) + len(newer) <= MAX_MERGED


class KeySet(KeyIndex):
    """Keys of which only membership counts."""

    def __init__(self, keys: Collection[str]) -> None:
        super().__init__([Keys.of(keys).in_order()])

    def common(self, keys: Sequence[str]) -> list[str]:
        """Those of these keys that are in the set."""
        return list(self.places(keys))


class AnsweredKeys(KeyIndex):
    """The keys that have an outcome, as an engine asks for them: one at a time, while more are added.

    A table with a byte per slot answers for most keys that are not in the set; only for the others are the sorted
    runs searched, which takes some 50 microseconds.
    """

    def __init__(self, runs: Iterable[Keys] = ()) -> None:
        super().__init__(runs)
        self._grow()

    def __contains__(self, key: str) -> bool:
        if not self._slots[int(key[:16], 16) & (len(self._slots) - 1)]:
            return False
        wanted = Keys.of([key])
        return any(len(run.find(wanted)[0]) for run in self._runs)

    @override
    def add_keys(self, keys: Keys) -> None:
        super().add_keys(keys)
        if len(self) * _SLOTS_PER_KEY > len(self._slots):
            self._grow()
        else:
            self._mark(keys)

    def _grow(self) -> None:
        """Make the table anew, with twice the slots that the keys need now."""
        needed = max(_MIN_SLOTS, 2 * _SLOTS_PER_KEY * len(self))
        self._slots = bytearray(1 << (needed - 1).bit_length())
        for run in self._runs:
            self._mark(run)

    def _mark(self, keys: Keys) -> None:
        slots = np.frombuffer(self._slots, dtype=np.uint8)
        slots[keys.heads & np.uint64(len(self._slots) - 1)] = 1
