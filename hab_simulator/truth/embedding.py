"""Embeddings: unit vectors that only the text decides, near each other where texts share words.

Each word is hashed to a row of a fixed random matrix; a text is the normalised sum of its rows, rarer
(longer) words weighing more. `dimensions` cuts the vector and normalises again, as the vendors do.
"""

import re
from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

_ROWS = 4096
_MATRIX_SEED = 20250909
_WORD = re.compile(r"\w+")
_COMMON_LENGTH = 3

Vector = NDArray[np.float32]


@lru_cache(maxsize=4)
def _matrix(width: int) -> Vector:
    return np.random.default_rng(_MATRIX_SEED).standard_normal((_ROWS, width), dtype=np.float32)


def embed(text: str, width: int, dimensions: int | None) -> Vector:
    """The unit vector of a text: `width` numbers, or the first `dimensions` of them."""
    words = _WORD.findall(text.lower()) or [text]
    hashes = (crc32(word.encode("utf-8", "replace")) % _ROWS for word in words)
    rows = np.fromiter(hashes, np.intp, len(words))
    weights = np.fromiter((0.2 if len(word) <= _COMMON_LENGTH else 1.0 for word in words), np.float32, len(words))
    vector = weights @ _matrix(width)[rows]
    kept = vector[:dimensions]
    return np.asarray(kept / np.linalg.norm(kept), dtype=np.float32)
