"""Near-duplicate tests, found by shared word trigrams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

MIN_SIMILARITY = 0.7
_WORD = re.compile(r"\w+")
_WORDS = 3
_TEXTS_AT_ONCE = 256


def near_duplicates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions, in order, of each pair of texts whose word trigrams have a Jaccard index of .7 or more.

    Memory grows with the number of texts, also where all of them share words: `_TEXTS_AT_ONCE` are compared at a time.
    """
    trigrams = [_trigrams(text) for text in texts]
    columns = {each: at for at, each in enumerate(dict.fromkeys(chain.from_iterable(trigrams)))}
    if not columns:
        return []
    indices = [columns[each] for each in chain.from_iterable(trigrams)]
    starts = np.cumsum([0, *map(len, trigrams)])
    contains = csr_array((np.ones(len(indices), dtype=np.int32), indices, starts), shape=(len(texts), len(columns)))
    contained, sizes = contains.T.tocsr(), np.diff(starts)
    return [
        pair
        for first in range(0, len(texts), _TEXTS_AT_ONCE)
        for pair in _pairs(contains[first : first + _TEXTS_AT_ONCE] @ contained, sizes, first)
    ]


def _pairs(shared: csr_array, sizes: NDArray[np.int64], first: int) -> list[tuple[int, int]]:
    """Return the similar pairs among the texts from `first` on, given how many trigrams they share with each text."""
    counts = shared.tocoo()
    one, other = counts.row + first, counts.col
    jaccard = counts.data / (sizes[one] + sizes[other] - counts.data)
    is_similar = (jaccard >= MIN_SIMILARITY) & (one < other)
    return sorted(zip(one[is_similar].tolist(), other[is_similar].tolist(), strict=True))


def _trigrams(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return {tuple(words[at : at + _WORDS]) for at in range(max(1, len(words) - _WORDS + 1))} if words else set()
