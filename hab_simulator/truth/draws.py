"""Seeded draws: every chance event of the simulator is a function of the seed and of what it concerns.

Nothing depends on the order in which requests arrive, so two runs that send the same bodies see the same
replies, faults and planted verdicts.
"""

from hashlib import blake2b
from random import Random
from statistics import NormalDist

_SEPARATOR = b"\x1f"
_STANDARD_NORMAL = NormalDist()
_BYTES = 8
_TWO_64 = float(2**64)


def number(seed: int, *parts: str | bytes | int) -> int:
    """A 64-bit integer that only the seed and the parts decide."""
    return int.from_bytes(blake2b(_joined(seed, parts), digest_size=_BYTES).digest(), "big")


def _joined(seed: int, parts: tuple[str | bytes | int, ...]) -> bytes:
    return _SEPARATOR.join([str(seed).encode(), *[p if isinstance(p, bytes) else str(p).encode() for p in parts]])


def unit(seed: int, *parts: str | bytes | int) -> float:
    """A uniform draw in (0, 1)."""
    return _as_unit(number(seed, *parts))


def _as_unit(drawn: int) -> float:
    return min((drawn + 0.5) / _TWO_64, 1.0 - 2**-53)


class Family:
    """Draws that share all parts but the last, hashed once: `Family(seed, a).unit(b)` is `unit(seed, a, b)`."""

    __slots__ = ("_shared",)

    def __init__(self, seed: int, *parts: str | bytes | int) -> None:
        self._shared = blake2b(_joined(seed, parts) + _SEPARATOR, digest_size=_BYTES)

    def unit(self, part: str) -> float:
        """The draw of this member, uniform in (0, 1)."""
        digest = self._shared.copy()
        digest.update(part.encode())
        return _as_unit(int.from_bytes(digest.digest(), "big"))


def normal(seed: int, *parts: str | bytes | int) -> float:
    """A standard normal draw."""
    return _STANDARD_NORMAL.inv_cdf(unit(seed, *parts))


def stream(seed: int, *parts: str | bytes | int) -> Random:
    """A private random generator for a reply that needs many draws."""
    return Random(number(seed, *parts))
