"""Waits that differ without a random state."""

from __future__ import annotations

from hashlib import sha256


def jitter(name: str, number: int) -> float:
    """A share from 0 to 1 that depends on a name and a count alone."""
    return int(sha256(f"{name}/{number}".encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
