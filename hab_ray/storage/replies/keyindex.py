"""Sets and indexes of millions of keys, at 40 bytes per key.

A key is a sha256. Its first 8 bytes are sorted and searched as an integer; the other 24 bytes settle collisions. Keys
are kept in sorted runs, which are merged so that each is at least twice as long as the next, up to `MAX_MERGED` keys.
So adding is cheap, and no merge needs memory for all keys at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, Self

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


class RowPlace(NamedTuple):
    """A row of a file, both by number."""

    file: int
    row: int


@dataclass(frozen=True)
class Keys:
    """Keys as three arrays: the first 8 bytes as an integer, the other 24 bytes, and file and row as one integer."""

    heads: NDArray[np.uint64]
    tails: NDArray[np.bytes_]
    places: NDArray[np.uint64]

    @classmethod
    def of(cls, keys: Collection[str]) -> Self:
        """Parse keys of 64 hexadecimal digits, as the rows of file 0; raise ValueError if a key has another form."""
        raw = bytes.fromhex("".join(keys))
        if len(raw) != KEY_BYTES * len(keys):
            raise ValueError("a key is not 64 hexadecimal digits long")
        return cls.of_bytes(raw)

    @classmethod
    def of_bytes(cls, raw: bytes | memoryview) -> Self:
        """Split concatenated keys of `KEY_BYTES` each, as the rows of file 0."""
        whole = np.frombuffer(raw, dtype=_WHOLE)
        rows = np.arange(len(whole), dtype=np.uint64)
        return cls(whole["head"].astype(np.uint64), whole["tail"].copy(), rows)

    def __len__(self) -> int:
        return len(self.heads)

    def __iter__(self) -> Iterator[str]:
        """Yield each key as 64 hexadecimal digits."""
        for head, tail in zip(self.heads.tolist(), self.tails.tolist(), strict=True):
            yield head.to_bytes(8, "big").hex() + tail.ljust(KEY_BYTES - 8, b"\0").hex()

    def at(self, positions: Positions | NDArray[np.bool_]) -> Keys:
        return Keys(self.heads[positions], self.tails[positions], self.places[positions])

    def in_file(self, file: int) -> Keys:
        """Move keys of file 0 to another file."""
        return replace(self, places=self.places | np.uint64(file << _ROW_BITS))

    def before(self, other: Keys) -> Keys:
        """Merge both, sorted by heads; of a repeated key keep this one's place."""
        return Keys(
            np.concatenate([self.heads, other.heads]),
            np.concatenate([self.tails, other.tails]),
            np.concatenate([self.places, other.places]),
        ).in_order()

    def in_order(self) -> Keys:
        """Sort the keys by their heads; of a repeated key keep the first place."""
        order = np.argsort(self.heads, kind="stable")
        heads, tails = self.heads[order], self.tails[order]
        repeated = np.zeros(len(order), dtype=np.bool_)
        repeated[1:] = (heads[1:] == heads[:-1]) & (tails[1:] == tails[:-1])
        return self.at(order[~repeated])

    def find(self, wanted: Keys) -> tuple[Positions, Positions]:
        """Return the positions in `wanted` of the keys found, and their positions here. These must be sorted."""
        at = np.searchsorted(self.heads, wanted.heads)
        pending = np.arange(len(wanted))
        found = np.zeros(len(wanted), dtype=np.bool_)
        while len(pending):  # a second pass only if different keys share a head, which is very rare
            pending = pending[at[pending] < len(self)]
            pending = pending[self.heads[at[pending]] == wanted.heads[pending]]
            same = self.tails[at[pending]] == wanted.tails[pending]
            found[pending[same]] = True
            pending = pending[~same]
            at[pending] += 1
        hits = np.flatnonzero(found)
        return hits, at[hits]


class KeyIndex:
    """An index of keys by file and row; the latest place of a key wins. `runs` are sorted, each without duplicates."""

    def __init__(self, runs: Iterable[Keys] = ()) -> None:
        self._runs = list(runs)

    def __len__(self) -> int:
        """Return the number of keys; a key added twice may count twice."""
        return sum(map(len, self._runs))

    def __iter__(self) -> Iterator[str]:
        """Yield all keys in no particular order; a key added twice may appear twice."""
        return chain.from_iterable(self._runs)

    def add(self, keys: Collection[str]) -> None:
        """Add keys without meaningful places."""
        self.add_keys(Keys.of(keys))

    def add_keys(self, keys: Keys) -> None:
        """Add keys with their places. Another thread that searches meanwhile finds all keys added before."""
        run, runs = keys.in_order(), list(self._runs)
        while runs and len(runs[-1]) < 2 * len(run) and len(runs[-1]) + len(run) <= MAX_MERGED:
            run = run.before(runs.pop())
        if len(run):
            runs.append(run)
        self._runs = runs

    def places(self, keys: Sequence[str]) -> dict[str, RowPlace]:
        """Return the places of those of these keys that are in the index."""
        found: dict[str, RowPlace] = {}
        wanted = Keys.of(keys)
        for run in self._runs:
            hits, at = run.find(wanted)
            for i, place in zip(hits.tolist(), run.places[at].tolist(), strict=True):
                found[keys[i]] = RowPlace(place >> _ROW_BITS, place & ((1 << _ROW_BITS) - 1))
        return found

    def hits(self, wanted: Keys) -> list[int]:
        """Return the positions in `wanted` of the keys that are in the index; one added twice may appear twice."""
        return [i for run in self._runs for i in run.find(wanted)[0].tolist()]

    def sorted_keys(self) -> list[Keys]:
        """Return all keys in a few sorted runs, which share this index's memory."""
        return list(self._runs)


class KeySet(KeyIndex):
    """A set of keys."""

    def __init__(self, keys: Collection[str]) -> None:
        super().__init__([Keys.of(keys).in_order()])


class AnsweredKeys(KeyIndex):
    """A set of the keys that have an outcome, fast for single lookups between additions.

    A table with one byte per slot rules out most keys that are not in the set. Only the others need a search of the
    sorted runs, which takes about 50 microseconds.
    """

    def __init__(self, runs: Iterable[Keys] = ()) -> None:
        super().__init__(runs)
        self._grow()

    def __contains__(self, key: str) -> bool:
        if not self._slots[int(key[:16], 16) & (len(self._slots) - 1)]:
            return False
        return bool(self.hits(Keys.of([key])))

    @override
    def add_keys(self, keys: Keys) -> None:
        super().add_keys(keys)
        if len(self) * _SLOTS_PER_KEY > len(self._slots):
            self._grow()
        else:
            self._mark(keys)

    def _grow(self) -> None:
        """Rebuild the table with twice the slots that the keys need now."""
        needed = max(_MIN_SLOTS, 2 * _SLOTS_PER_KEY * len(self))
        self._slots = bytearray(1 << (needed - 1).bit_length())
        for run in self._runs:
            self._mark(run)

    def _mark(self, keys: Keys) -> None:
        slots = np.frombuffer(self._slots, dtype=np.uint8)
        slots[keys.heads & np.uint64(len(self._slots) - 1)] = 1
