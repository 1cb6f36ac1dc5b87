"""Deterministic jitter for waits, without random state."""

from __future__ import annotations

from hashlib import sha256


def jitter(name: str, number: int) -> float:
    """A fraction from 0 to 1 that depends on `name` and `number` alone."""
    return int(sha256(f"{name}/{number}".encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
