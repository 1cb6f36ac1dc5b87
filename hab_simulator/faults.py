"""Injected faults: what can go wrong, and for which call.

A fault is a function of the seed, the call (account, path, body) and how often it came, never of the order of
arrival.
Only `reset` and `hang` with `billed`, `truncated`, `slow` and `delay` are charged.
"""

from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from hab_simulator.settings import Glob, Settings, Share
from hab_simulator.truth.draws import unit


class FaultRule(Settings):
    """Which calls a fault may strike, and how often.

    `account`, `model` and `path` (below the version, such as `chat/completions`) are shell patterns;
    `first_attempts` spares every body that was already sent so many times.
    """

    probability: Share
    account: Glob = "*"
    model: Glob = "*"
    path: Glob = "*"
    first_attempts: int | None = Field(default=None, ge=1)

    def touches(self, account: str, model: str, path: str, attempt: int) -> bool:
        """Whether this rule applies to the `attempt`-th sending (from 1) of a body."""
        return (
            (self.first_attempts is None or attempt <= self.first_attempts)
            and fnmatchcase(account, self.account)
            and fnmatchcase(model, self.model)
            and fnmatchcase(path, self.path)
        )


class StatusFault(FaultRule):
    """The vendor's error body with this status, not billed."""

    kind: Literal["status"] = "status"
    status: Literal[408, 409, 429, 500, 502, 503, 504, 529]
    retry_after_s: float | None = Field(default=None, ge=0)


class ResetFault(FaultRule):
    """The connection is reset; with `billed`, after the vendor has done and charged the work."""

    kind: Literal["reset"] = "reset"
    billed: bool = False


class TruncatedFault(FaultRule):
    """Content-Length promises more than is sent before the connection closes; billed."""

    kind: Literal["truncated"] = "truncated"


class HangFault(FaultRule):
    """Never an answer: the caller's timeout has to end it; with `billed`, the work is charged."""

    kind: Literal["hang"] = "hang"
    billed: bool = False


class SlowFault(FaultRule):
    """The body arrives in pieces over this many seconds; billed as any answer."""

    kind: Literal["slow"] = "slow"
    seconds: float = Field(gt=0)


class DelayFault(FaultRule):
    """The answer comes this many seconds later; billed as any answer."""

    kind: Literal["delay"] = "delay"
    seconds: float = Field(gt=0)


Fault = Annotated[
    StatusFault | ResetFault | TruncatedFault | HangFault | SlowFault | DelayFault,
    Field(discriminator="kind"),
]
FAULTS: TypeAdapter[tuple[Fault, ...]] = TypeAdapter(tuple[Fault, ...])


def charges(fault: Fault | None) -> bool:
    """Whether a call struck by this fault is billed."""
    if isinstance(fault, ResetFault | HangFault):
        return fault.billed
    return not isinstance(fault, StatusFault)


def loses(fault: Fault | None) -> bool:
    """Whether the answer of a call struck by this fault never arrives whole."""
    return isinstance(fault, ResetFault | HangFault | TruncatedFault)


@dataclass(slots=True)
class FaultPlan:
    """The faults in force and the attempts seen of each call, by its label."""

    seed: int
    rules: tuple[Fault, ...]
    _attempts: Counter[bytes] = field(default_factory=Counter)

    def attempt(self, label: bytes) -> int:
        """Count one more sending of this call; the first is 1."""
        self._attempts[label] += 1
        return self._attempts[label]

    def strike(self, account: str, model: str, path: str, label: bytes, attempt: int) -> Fault | None:
        """The first rule that touches this call and whose draw comes up."""
        touching = ((at, rule) for at, rule in enumerate(self.rules) if rule.touches(account, model, path, attempt))
        drawn = (rule for at, rule in touching if unit(self.seed, "fault", at, label, attempt) < rule.probability)
        return next(drawn, None)
