"""Where keys are: an index of millions of keys in 40 bytes each.

Sorted runs of arrays, merged so that each is at least twice as long as the one after it: adding costs little, and a
lookup searches some twenty runs at most. The newest place of a key counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 32

Keys = NDArray[np.bytes_]
Numbers = NDArray[np.uint32]


@dataclass(frozen=True)
class Place:
    """The number of a file, and the row in it."""

    file: int
    row: int


@dataclass(frozen=True)
class _Run:
    keys: Keys
    files: Numbers
    rows: Numbers


class KeySet:
    """Keys of which only membership counts, in 32 bytes each."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = np.sort(_raw(list(keys)))

    def common(self, keys: Sequence[str]) -> list[str]:
        """Those of these keys that are in the set."""
        if not len(self._keys) or not keys:
            return []
        return [keys[i] for i in _found(self._keys, _raw(keys))[0]]


class KeyIndex:
    """The places of keys, each the 64 hexadecimal digits of a sha256."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, keys: Sequence[str], file: int) -> None:
        """Note the keys of a file, in the order of its rows."""
        if not keys:
            return
        rows = np.arange(len(keys), dtype=np.uint32)
        run = _sorted(_raw(keys), np.full(len(keys), file, dtype=np.uint32), rows)
        while self._runs and len(self._runs[-1].keys) < 2 * len(run.keys):
            run = _merged(run, self._runs.pop())
        self._runs.append(run)

    def places(self, keys: Sequence[str]) -> dict[str, Place]:
        """The places of those keys that are known."""
        found: dict[str, Place] = {}
        if not keys:
            return found
        wanted = _raw(keys)
        for run in self._runs:
            for i, at in zip(*_found(run.keys, wanted), strict=True):
                found[keys[i]] = Place(int(run.files[at]), int(run.rows[at]))
        return found

    def __iter__(self) -> Iterator[str]:
        for run in self._runs:
            for raw in run.keys:
                yield raw.ljust(KEY_BYTES, b"\0").hex()

    def clear(self) -> None:
        """Forget everything."""
        self._runs.clear()


def _found(known: Keys, wanted: Keys) -> tuple[list[int], list[int]]:
    """Which of the wanted keys are among the known, sorted ones, and where."""
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    hits = np.flatnonzero(known[at] == wanted)
    return hits.tolist(), at[hits].tolist()


def _raw(keys: Sequence[str]) -> Keys:
    return np.frombuffer(bytes.fromhex("".join(keys)), dtype=f"S{KEY_BYTES}")


def _sorted(keys: Keys, files: Numbers, rows: Numbers) -> _Run:
    """A run of these, the first place of each key."""
    unique, first = np.unique(keys, return_index=True)
    return _Run(unique, files[first], rows[first])


def _merged(newer: _Run, older: _Run) -> _Run:
    return _sorted(
        np.concatenate([newer.keys, older.keys]),
        np.concatenate([newer.files, older.files]),
        np.concatenate([newer.rows, older.rows]),
    )
