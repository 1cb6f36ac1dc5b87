"""Wall time, as parameters that take a clock use it by default."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the current wall time in UTC."""
    return datetime.now(UTC)
