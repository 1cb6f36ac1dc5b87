"""Sets and indexes of millions of keys, in 32 to 40 bytes each.

A key is a sha256, so its first 8 bytes are as good as a random number: they are sorted and searched as integers, and
the other 24 decide. Sorted runs are merged so that each is at least twice as long as the next, up to
`LONGEST_MERGED`: adding stays cheap, and no merge needs memory for all keys at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 32
LONGEST_MERGED = 1 << 18

_HEAD = np.dtype(">u8")
_TAIL = np.dtype("S24")
_WHOLE = np.dtype([("head", _HEAD), ("tail", _TAIL)])

Numbers = NDArray[np.uint32]
Positions = NDArray[np.intp]


@dataclass(frozen=True)
class Place:
    """The number of a file, and the row in it."""

    file: int
    row: int


@dataclass(frozen=True)
class Keys:
    """Keys in any order: the first 8 bytes of each as an integer, and the rest."""

    heads: NDArray[np.uint64]
    tails: NDArray[np.bytes_]

    @classmethod
    def of(cls, keys: Sequence[str]) -> Self:
        """Keys from their 64 hexadecimal digits.

        Raises:
            ValueError: one is no such key.
        """
        raw = bytes.fromhex("".join(keys))
        if len(raw) != KEY_BYTES * len(keys):
            raise ValueError("a key is not 64 hexadecimal digits long")
        return cls.of_bytes(raw)

    @classmethod
    def of_bytes(cls, raw: bytes | memoryview) -> Self:
        """Keys from their bytes, `KEY_BYTES` each, one after the other."""
        whole = np.frombuffer(raw, dtype=_WHOLE)
        return cls(whole["head"].astype(np.uint64), whole["tail"].copy())

    def __len__(self) -> int:
        return len(self.heads)

    def hex(self, position: int) -> str:
        """The 64 hexadecimal digits of one key."""
        head, tail = int(self.heads[position]), bytes(self.tails[position])
        return head.to_bytes(8, "big").hex() + tail.ljust(KEY_BYTES - 8, b"\0").hex()

    def at(self, positions: Positions | NDArray[np.bool_]) -> Keys:
        """Some of the keys."""
        return Keys(self.heads[positions], self.tails[positions])

    def joined(self, other: Keys) -> Keys:
        """These keys and then those of another."""
        return Keys(np.concatenate([self.heads, other.heads]), np.concatenate([self.tails, other.tails]))

    def order(self) -> Positions:
        """The positions that sort the keys by their heads; of a repeated key only the first."""
        order = np.argsort(self.heads, kind="stable")
        heads, tails = self.heads[order], self.tails[order]
        repeated = np.zeros(len(order), dtype=np.bool_)
        repeated[1:] = (heads[1:] == heads[:-1]) & (tails[1:] == tails[:-1])
        return order[~repeated]

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


class KeySet:
    """Keys of which only membership counts, in 32 bytes each."""

    def __init__(self, keys: Collection[str]) -> None:
        unsorted = Keys.of(list(keys))
        self._keys = unsorted.at(unsorted.order())

    def common(self, keys: Sequence[str]) -> list[str]:
        """Those of these keys that are in the set."""
        if not keys:
            return []
        return [keys[i] for i in self._keys.find(Keys.of(keys))[0].tolist()]


@dataclass(frozen=True)
class _Run:
    keys: Keys
    files: Numbers
    rows: Numbers


class KeyIndex:
    """Where keys are; the newest place of a key counts."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, keys: Sequence[str], file: int) -> None:
        """Note the keys of a file, in the order of its rows."""
        self.add_keys(Keys.of(keys), file)

    def add_keys(self, keys: Keys, file: int) -> None:
        """As `add`."""
        if not len(keys):
            return
        rows = np.arange(len(keys), dtype=np.uint32)
        run = _sorted(_Run(keys, np.full(len(keys), file, dtype=np.uint32), rows))
        while self._runs and may_merge(len(self._runs[-1].keys), len(run.keys)):
            run = _merged(run, self._runs.pop())
        self._runs.append(run)

    def places(self, keys: Sequence[str]) -> dict[str, Place]:
        """The places of those keys that are known."""
        found: dict[str, Place] = {}
        if not keys:
            return found
        wanted = Keys.of(keys)
        for run in self._runs:
            hits, at = run.keys.find(wanted)
            places = zip(hits.tolist(), run.files[at].tolist(), run.rows[at].tolist(), strict=True)
            found.update((keys[i], Place(file, row)) for i, file, row in places)
        return found

    def sorted_keys(self) -> list[Keys]:
        """All keys in a few sorted runs, which share this index's memory."""
        return [run.keys for run in self._runs]

    def clear(self) -> None:
        """Forget everything."""
        self._runs.clear()


def may_merge(older: int, newer: int) -> bool:
    """Whether two neighbouring runs of so many keys become one."""
    return older < 2 * newer and older + newer <= LONGEST_MERGED


def _sorted(run: _Run) -> _Run:
    order = run.keys.order()
    return _Run(run.keys.at(order), run.files[order], run.rows[order])


def _merged(newer: _Run, older: _Run) -> _Run:
    return _sorted(
        _Run(
            newer.keys.joined(older.keys),
            np.concatenate([newer.files, older.files]),
            np.concatenate([newer.rows, older.rows]),
        )
    )
