"""Findings: what readers should know before using the scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from hab_ray.visible import percent as percent_of

MAX_SHOWN_FIRST, MAX_HEADLINE_WORDS = 3, 25


class Severity(IntEnum):
    """How much a finding affects: all scores, some of them, or none."""

    HIGH = 3
    MEDIUM = 2
    LOW = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a reader should know before using the scores.

    `kind` names the check. `severity` is 3 if the scores cannot be used as they are, 2 if some of them cannot, 1 for
    information. `number` is the figure that triggered the finding, `detail` explains it, `remedy` says what to do.
    """

    kind: str
    severity: int
    title: str
    detail: str
    remedy: str
    number: float | None = None

    @property
    def headline(self) -> str:
        """The title, and the first sentence of the detail if both fit on a line of the terminal."""
        first = f"{self.title}. {self.detail.split('. ')[0].rstrip('.')}."
        return first if len(first.split()) <= MAX_HEADLINE_WORDS else f"{self.title}."


def ranked(found: Sequence[Finding]) -> list[Finding]:
    """Sort findings by severity, the most severe first, keeping the order within one."""
    return sorted(found, key=lambda finding: -finding.severity)


def worst(found: Sequence[Finding]) -> list[Finding]:
    """Return the three findings shown above the leaderboard, which exclude mere information."""
    return [finding for finding in ranked(found) if finding.severity > Severity.LOW][:MAX_SHOWN_FIRST]


def spoken(dimension: str) -> str:
    """Return a dimension's id as words."""
    return dimension.replace("_", " ")


def percent(share: float) -> str:
    """Format a share (0..1) in percent, with a decimal only below one percent."""
    return percent_of(share, 1 if 0 < share < 0.01 else 0)
