"""Near-duplicate tests, found by shared word trigrams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

import numpy as np
from scipy.sparse import csr_array

MIN_SIMILARITY = 0.7
_WORD = re.compile(r"\w+")
_WORDS = 3


def near_duplicates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions, in order, of each pair of texts whose word trigrams have a Jaccard index of .7 or more."""
    trigrams = [_trigrams(text) for text in texts]
    columns = {each: at for at, each in enumerate(dict.fromkeys(chain.from_iterable(trigrams)))}
    if not columns:
        return []
    indices = [columns[each] for each in chain.from_iterable(trigrams)]
    starts = np.cumsum([0, *map(len, trigrams)])
    contains = csr_array((np.ones(len(indices), dtype=np.int32), indices, starts), shape=(len(texts), len(columns)))
    shared = (contains @ contains.T).tocoo()
    sizes = np.diff(starts)
    jaccard = shared.data / (sizes[shared.row] + sizes[shared.col] - shared.data)
    is_similar = (jaccard >= MIN_SIMILARITY) & (shared.row < shared.col)
    return sorted(zip(shared.row[is_similar].tolist(), shared.col[is_similar].tolist(), strict=True))


def _trigrams(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return {tuple(words[at : at + _WORDS]) for at in range(max(1, len(words) - _WORDS + 1))} if words else set()
