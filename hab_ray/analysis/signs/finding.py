"""What a sign of trouble says when it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

WORST = 3


class Severity(IntEnum):
    """How much a finding takes from the scores: all they claim, a part of it, or what a reader may want to know."""

    HIGH = 3
    MEDIUM = 2
    LOW = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a reader should know before using the scores.

    `kind` names the sign, `severity` is 3 where the scores cannot be used as they are, 2 where a part of them cannot,
    1 for what is good to know. `number` is the figure that the sign goes by, `detail` says what it is, `remedy` what
    to do.
    """

    kind: str
    severity: int
    title: str
    detail: str
    remedy: str
    number: float | None = None


def ranked(found: Sequence[Finding]) -> list[Finding]:
    """The gravest first; those of one severity as they come."""
    return sorted(found, key=lambda finding: -finding.severity)


def worst(found: Sequence[Finding]) -> list[Finding]:
    """The three that stand above the leaderboard; what is only good to know never does."""
    return [finding for finding in ranked(found) if finding.severity > Severity.LOW][:WORST]


def spoken(dimension: str) -> str:
    """A dimension's id as words in a sentence."""
    return dimension.replace("_", " ")


def percent(share: float) -> str:
    """A share of 0..1 in percent, without decimals from one percent on."""
    return f"{100 * share:.0f} %" if share >= 0.01 or share == 0 else f"{100 * share:.1f} %"
