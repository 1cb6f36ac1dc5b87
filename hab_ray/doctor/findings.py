"""What the doctor finds, a line of its table each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Whether a finding stands in the way: `wrong` does, `warn` may."""

    OK = "ok"
    WARN = "warn"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """What was looked at, what was seen there, and what to do about it where it is not in order."""

    subject: str
    level: Level
    seen: str
    remedy: str = ""


def ok(subject: str, seen: str) -> Finding:
    """Something in order."""
    return Finding(subject, Level.OK, seen)


def warn(subject: str, seen: str, remedy: str) -> Finding:
    """Something that may become a trouble."""
    return Finding(subject, Level.WARN, seen, remedy)


def wrong(subject: str, seen: str, remedy: str) -> Finding:
    """Something that a run cannot do with."""
    return Finding(subject, Level.WRONG, seen, remedy)
