"""What can go wrong with a whole batch, and which batch it strikes.

Batches are named by their account and ordinal: the number of the create request, from 1, counting those that
were well-formed. So "the second batch of openai expires half done" is a rule of its own. Of several rules of one
kind that touch a batch the first strikes; rules of different kinds strike together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter

from hab_simulator.batch.settings import LineStatus
from hab_simulator.settings import Glob, Settings, Share
from hab_simulator.truth.draws import unit


class BatchRule(Settings):
    """The batches a fault may strike: those of `account` (a shell pattern) with this ordinal, or any of them."""

    account: Glob = "*"
    ordinal: int | None = Field(default=None, ge=1)
    probability: Share = 1.0

    def touches(self, seed: int, place: int, account: str, ordinal: int) -> bool:
        """Whether the rule at this place of the list strikes the batch."""
        return (
            self.ordinal in (None, ordinal)
            and fnmatchcase(account, self.account)
            and unit(seed, "batch fault", place, account, ordinal) < self.probability
        )


class RefusedCreate(BatchRule):
    """The create request is answered with this status, and no batch is made."""

    kind: Literal["refused_create"] = "refused_create"
    status: LineStatus = 500


class LostCreate(BatchRule):
    """The batch is made, the connection is cut; lists show it only `hidden_s` seconds later."""

    kind: Literal["lost_create"] = "lost_create"
    hidden_s: float = Field(default=0.0, ge=0)


class SlowCreate(BatchRule):
    """The batch is made at once, the create request answered only after so many real seconds."""

    kind: Literal["slow_create"] = "slow_create"
    seconds: float = Field(gt=0)


class Foreign(BatchRule):
    """Somebody else makes a batch of as many rows, without our tag, right after this one."""

    kind: Literal["foreign"] = "foreign"


class Invalid(BatchRule):
    """The batch fails as a whole when its input is read. Anthropic has no such state: all its lines fail."""

    kind: Literal["invalid"] = "invalid"


class Expired(BatchRule):
    """The batch expires when its time has come, with this share of its lines done."""

    kind: Literal["expired"] = "expired"
    done: Share = 0.5


class CancelledByVendor(BatchRule):
    """The vendor cancels the batch when its time has come, with this share of its lines done."""

    kind: Literal["cancelled"] = "cancelled"
    done: Share = 0.5


class Stuck(BatchRule):
    """The batch goes on until it is cancelled; this share of its lines is done by then."""

    kind: Literal["stuck"] = "stuck"
    done: Share = 0.5


class RevertedCancel(BatchRule):
    """xAI: the first polls after its end show all requests of a cancelled batch as cancelled, later ones do not."""

    kind: Literal["reverted_cancel"] = "reverted_cancel"
    polls: int = Field(default=1, ge=1)


class LateResults(BatchRule):
    """The first polls after the batch's end, or all of them, show the end and its counts, and no place of its results.

    OpenAI and Gemini were seen to name the file only at a later poll (BerriAI/litellm#37713, tidyverse/ellmer#926).
    """

    kind: Literal["late_results"] = "late_results"
    polls: int | None = Field(default=None, ge=1)


class PollError(BatchRule):
    """The first polls of the batch are answered with this status; 404 as if it did not exist."""

    kind: Literal["poll_error"] = "poll_error"
    polls: int = Field(default=1, ge=1)
    status: Literal[404, 429, 500, 502, 503, 504, 529] = 500


class OddState(BatchRule):
    """The first polls of the batch show a state that no documentation knows."""

    kind: Literal["odd_state"] = "odd_state"
    polls: int = Field(default=1, ge=1)


class CutResults(BatchRule):
    """The first downloads of results break off half-way."""

    kind: Literal["cut_results"] = "cut_results"
    downloads: int = Field(default=1, ge=1)


BatchFault = Annotated[
    RefusedCreate
    | LostCreate
    | SlowCreate
    | Foreign
    | Invalid
    | Expired
    | CancelledByVendor
    | Stuck
    | RevertedCancel
    | LateResults
    | PollError
    | OddState
    | CutResults,
    Field(discriminator="kind"),
]
BATCH_FAULTS: TypeAdapter[tuple[BatchFault, ...]] = TypeAdapter(tuple[BatchFault, ...])
Rule = TypeVar("Rule", bound=BatchRule)


@dataclass(frozen=True, slots=True)
class Struck:
    """The faults that strike one batch."""

    rules: tuple[BatchRule, ...] = ()

    @classmethod
    def of(cls, seed: int, rules: Sequence[BatchRule], account: str, ordinal: int) -> Struck:
        """Draw what strikes the batch of this ordinal."""
        touching = (rule for place, rule in enumerate(rules) if rule.touches(seed, place, account, ordinal))
        return cls(tuple(touching))

    def find(self, kind: type[Rule]) -> Rule | None:
        return next((rule for rule in self.rules if isinstance(rule, kind)), None)
