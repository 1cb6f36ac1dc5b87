"""Seeded draws: every chance event of the simulator is a function of the seed and of what it concerns.

Nothing depends on the order in which requests arrive, so two runs that send the same bodies see the same
replies, faults and planted verdicts.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from statistics import NormalDist

_SEPARATOR = b"\x1f"
_STANDARD_NORMAL = NormalDist()
_TWO_64 = float(2**64)


def number(seed: int, *parts: str | bytes | int) -> int:
    """A 64-bit integer that only the seed and the parts decide."""
    digest = blake2b(str(seed).encode(), digest_size=8)
    for part in parts:
        digest.update(_SEPARATOR)
        digest.update(part if isinstance(part, bytes) else str(part).encode())
    return int.from_bytes(digest.digest(), "big")


def unit(seed: int, *parts: str | bytes | int) -> float:
    """A uniform draw in (0, 1)."""
    return min((number(seed, *parts) + 0.5) / _TWO_64, 1.0 - 2**-53)


def normal(seed: int, *parts: str | bytes | int) -> float:
    """A standard normal draw."""
    return _STANDARD_NORMAL.inv_cdf(unit(seed, *parts))


def stream(seed: int, *parts: str | bytes | int) -> Random:
    """A private random generator for a reply that needs many draws."""
    return Random(number(seed, *parts))
