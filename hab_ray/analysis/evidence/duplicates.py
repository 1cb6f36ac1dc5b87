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


def near_duplicates(texts: Sequence[str]) -> dict[int, int]:
    """Return, by position, the first other text whose word trigrams have a Jaccard index of .7 or more with a text's.

    Memory grows with the number of texts, also where all of them share words: `_TEXTS_AT_ONCE` are compared at a time.
    """
    trigrams = [_trigrams(text) for text in texts]
    columns: dict[str, int] = {}
    indices = [columns.setdefault(each, len(columns)) for each in chain.from_iterable(trigrams)]
    if not columns:
        return {}
    starts = np.cumsum([0, *map(len, trigrams)])
    contains = csr_array((np.ones(len(indices), dtype=np.int32), indices, starts), shape=(len(texts), len(columns)))
    contained, sizes = contains.T.tocsr(), np.diff(starts)
    found = [
        _first_similar(contains[start : start + _TEXTS_AT_ONCE] @ contained, sizes, start)
        for start in range(0, len(texts), _TEXTS_AT_ONCE)
    ]
    return {text: other for text, other in enumerate(np.concatenate(found).tolist()) if other < len(texts)}


def _first_similar(shared: csr_array, sizes: NDArray[np.int64], start: int) -> NDArray[np.int64]:
    """Return the first text similar to each text from `start` on, or the number of texts if there is none.

    `shared` are the numbers of trigrams that each of them shares with each text.
    """
    counts = shared.tocoo()
    one, other = counts.row + start, counts.col
    jaccard = counts.data / (sizes[one] + sizes[other] - counts.data)
    is_similar = (jaccard >= MIN_SIMILARITY) & (one != other)
    first = np.full(shared.shape[0], len(sizes))
    np.minimum.at(first, counts.row[is_similar], other[is_similar])
    return first


def _trigrams(text: str) -> set[str]:
    words = _WORD.findall(text.casefold())
    return {" ".join(words[at : at + _WORDS]) for at in range(max(1, len(words) - _WORDS + 1))} if words else set()
