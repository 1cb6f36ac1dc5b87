"""What a rubric file holds, as types."""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import sha256
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, TypeAdapter

VALIDATION_START = 1000
SCORE_START = 10

Text = Annotated[str, Field(min_length=1)]
Id = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
RubricId = TypeAdapter[str](Id)


def _is_absent(value: object) -> bool:
    return value is None or value == ()


class Part(BaseModel):
    """A part of a rubric file: frozen, without unknown keys, texts without surrounding white space."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Criterion(Part):
    """A named fault and the points it costs: of a candidate (from 1000) or of a response (an issue, from 10)."""

    letter: Text
    deduction: StrictInt
    text: Text


class Seed(Part):
    """A query written by hand: shown to the generator, and askable as a test itself."""

    prompt: Text
    context: Text | None = None


class Example(Part):
    """A graded response that shows the judge how the issues are meant; `issues` are letters, () = faultless."""

    prompt: Text
    context: Text | None = None
    response: Text
    assessment: Text
    issues: tuple[str, ...]


class ScoredCandidate(Part):
    """A scored candidate that shows the validator how the criteria are meant.

    `deductions` are letters, () = without fault; `score` is VALIDATION_START minus what they cost, never below 0.
    """

    prompt: Text
    context: Text | None = None
    assessment: Text
    deductions: tuple[str, ...]
    score: StrictInt


class Note(Part):
    """A further remark to the judge. `ours`: the paper does not make it; `why` then says why it is worth keeping.

    Prompts may leave out the notes that are ours: see `judge.ours` in prompts.yaml.
    """

    text: Text
    ours: StrictBool = False
    why: Text | None = Field(default=None, exclude=True)


class ContextField(Part):
    """A second field of each query, which validator and judge see and the subject does not.

    `within_prompt`: it must occur in the prompt word for word.
    """

    label: Text
    description: Text
    within_prompt: StrictBool


class Generation(Part):
    """How queries of this dimension are written."""

    brief: Text
    seeds: tuple[Seed, ...]


class Validation(Part):
    """What spoils a candidate, in points of VALIDATION_START; that many disqualify it."""

    criteria: tuple[Criterion, ...] = Field(min_length=1)
    examples: tuple[ScoredCandidate, ...] = Field(default=(), exclude_if=_is_absent)


class Judging(Part):
    """What a judge is told, beside the rubric's definition."""

    guidance: Text
    notes: tuple[Note, ...] = Field(default=(), exclude_if=_is_absent)
    issues: tuple[Criterion, ...] = Field(min_length=1)
    examples: tuple[Example, ...]


class Difference(Part):
    """Something that is not as in the paper, and the reason."""

    what: Text
    why: Text


class Fidelity(Part):
    """What of a file equals the paper's benchmark and what differs. For people: no model is shown it."""

    equals: tuple[Text, ...] = Field(min_length=1)
    differs: tuple[Difference, ...] = ()


class Rubric(Part):
    """One dimension. `system` is what it adds to the subject's system prompt, "" = nothing.

    Without `generation` the dimension is asked only from tests that a sweep gives.
    """

    id: Id
    title: Text
    definition: Text
    system: str
    context: ContextField | None = None
    generation: Generation | None = Field(default=None, exclude_if=_is_absent)
    validation: Validation | None = Field(default=None, exclude_if=_is_absent)
    judging: Judging
    fidelity: Fidelity | None = Field(default=None, exclude=True)

    @cached_property
    def sha256(self) -> str:
        """Hex digest of what models are shown and what scores follow from.

        Comments, line breaks, the order of keys, `fidelity` and the reasons for notes do not count. A key that a
        later version introduced counts only where it is given, so that older files keep their digest.
        """
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("ascii")).hexdigest()

    @property
    def seeds(self) -> tuple[Seed, ...]:
        """The seed queries; none where the dimension is asked only from given tests."""
        return self.generation.seeds if self.generation else ()

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The faults of a candidate; none where candidates cannot be validated."""
        return self.validation.criteria if self.validation else ()

    def issue_letters(self) -> tuple[str, ...]:
        """The letters a judge may name, in order."""
        return tuple(issue.letter for issue in self.judging.issues)

    def deduction(self, letter: str) -> int:
        """Points of SCORE_START that the issue costs. Raises KeyError if the rubric has no such letter."""
        return {issue.letter: issue.deduction for issue in self.judging.issues}[letter]


class Themes(Part):
    """The themes file: short subjects, one of which is drawn for each generation request."""

    themes: tuple[Text, ...]
    fidelity: Fidelity | None = None

    @property
    def sha256(self) -> str:
        """Hex digest of the themes in their order."""
        return sha256("\n".join(self.themes).encode()).hexdigest()
