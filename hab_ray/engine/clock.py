"""Wall time, as parameters that take a clock use it by default, and jitter for waiting times, without random state."""

from datetime import UTC, datetime
from hashlib import sha256


def utc_now() -> datetime:
    """Return the current wall time in UTC."""
    return datetime.now(UTC)


def jitter(name: str, number: int) -> float:
    """Return a fraction from 0 to 1 that depends only on `name` and `number`."""
    return int(sha256(f"{name}/{number}".encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
