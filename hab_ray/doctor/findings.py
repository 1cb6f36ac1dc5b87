"""The doctor's findings: one per line of its table."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding: `wrong` prevents a run, `warn` may."""

    OK = "ok"
    WARN = "warn"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """What was checked, what was found, and the remedy if there is a problem."""

    subject: str
    level: Level
    seen: str
    remedy: str = ""


def ok(subject: str, seen: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(subject, Level.OK, seen)


def warn(subject: str, seen: str, remedy: str) -> Finding:
    """Return a finding that may cause problems."""
    return Finding(subject, Level.WARN, seen, remedy)


def wrong(subject: str, seen: str, remedy: str) -> Finding:
    """Return a finding that prevents a run."""
    return Finding(subject, Level.WRONG, seen, remedy)
