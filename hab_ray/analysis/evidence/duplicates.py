"""Tests that say nearly the same, found by the runs of three words that they share."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

ALIKE = 0.7
_WORD = re.compile(r"\w+")
_RUN = 3


def near_duplicates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of places, first before second, whose sets of runs of three words have a Jaccard index of .7 or more."""
    runs = [_runs(text) for text in texts]
    columns = {run: at for at, run in enumerate(dict.fromkeys(run for own in runs for run in own))}
    if not columns:
        return []
    places = [columns[run] for own in runs for run in own]
    starts = np.cumsum([0, *map(len, runs)])
    held = csr_array((np.ones(len(places), dtype=np.int32), places, starts), shape=(len(texts), len(columns)))
    shared = (held @ held.T).tocoo()
    sizes = np.diff(starts)
    index = shared.data / (sizes[shared.row] + sizes[shared.col] - shared.data)
    found = (index >= ALIKE) & (shared.row < shared.col)
    return sorted(zip(shared.row[found].tolist(), shared.col[found].tolist(), strict=True))


def _runs(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return {tuple(words[at : at + _RUN]) for at in range(max(1, len(words) - _RUN + 1))} if words else set()
