"""What a rubric file holds, as types."""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Self

from pydantic import ConfigDict, Field, StrictBool, StrictInt, TypeAdapter, model_validator

from hab_ray.rubric.base import RubricPart, Text
from hab_ray.rubric.literal import ExactText, LiteralGeneration, LiteralJudging, LiteralPrompts, LiteralRequest

VALIDATION_START = 1000
SCORE_START = 10

Id = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
RubricId = TypeAdapter[str](Id)


def _is_absent(value: object) -> bool:
    return value is None or value == ()


class Criterion(RubricPart):
    """A named fault and the points it costs: of a candidate (from 1000) or of a response (an issue, from 10)."""

    letter: Text
    deduction: StrictInt
    text: Text


class Seed(RubricPart):
    """A query written by hand: shown to the generator, and askable as a test itself."""

    prompt: Text
    context: Text | None = None


class LiteralSeed(Seed):
    """A seed of imported wording: its white space is shown as it is."""

    model_config = ConfigDict(str_strip_whitespace=False)


class Example(RubricPart):
    """A graded response that shows the judge how the issues are meant; `issues` are letters, () = faultless."""

    prompt: Text
    context: Text | None = None
    response: Text
    assessment: Text
    issues: tuple[str, ...]


class ScoredCandidate(RubricPart):
    """A scored candidate that shows the validator how the criteria are meant.

    `deductions` are letters, () = without fault; `score` is VALIDATION_START minus what they cost, never below 0.
    """

    prompt: Text
    context: Text | None = None
    assessment: Text
    deductions: tuple[str, ...]
    score: StrictInt


class Note(RubricPart):
    """A further remark to the judge. `ours`: the paper does not make it; `why` then says why it is worth keeping.

    Prompts may leave out the notes that are ours: see `judge.ours` in prompts.yaml.
    """

    text: Text
    ours: StrictBool = False
    why: Text | None = Field(default=None, exclude=True)


class ContextField(RubricPart):
    """A second field of each query, which validator and judge see and the subject does not.

    `within_prompt`: it must occur in the prompt word for word.
    """

    label: Text
    description: Text
    within_prompt: StrictBool


class Generation(RubricPart):
    """How queries of this dimension are written."""

    brief: Text
    seeds: tuple[Seed, ...]


class Validation(RubricPart):
    """What spoils a candidate, in points of VALIDATION_START; that many disqualify it."""

    criteria: tuple[Criterion, ...] = Field(min_length=1)
    examples: tuple[ScoredCandidate, ...] = Field(default=(), exclude_if=_is_absent)


class Judging(RubricPart):
    """What a judge is told, beside the rubric's definition."""

    guidance: Text
    notes: tuple[Note, ...] = Field(default=(), exclude_if=_is_absent)
    issues: tuple[Criterion, ...] = Field(min_length=1)
    examples: tuple[Example, ...]


class Deviation(RubricPart):
    """Something that is not as in the paper, and the reason."""

    what: Text
    why: Text


class Fidelity(RubricPart):
    """What of a file equals the paper's benchmark and what differs. For people: no model is shown it."""

    equals: tuple[Text, ...] = Field(min_length=1)
    differs: tuple[Deviation, ...] = ()


class Rubric(RubricPart):
    """One dimension. `system` is what it adds to the subject's system prompt, "" = nothing.

    Without `generation` the dimension is asked only from tests that a sweep gives. Where `literal` has a request, that
    is sent as it is, in place of what templates make of the other sections.
    """

    id: Id
    title: Text
    definition: Text
    system: str
    context: ContextField | None = None
    generation: Generation | None = Field(default=None, exclude_if=_is_absent)
    validation: Validation | None = Field(default=None, exclude_if=_is_absent)
    judging: Judging
    literal: LiteralPrompts | None = Field(default=None, exclude_if=_is_absent)
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
    def literal_generation(self) -> LiteralGeneration | None:
        """The imported request for queries, with its seeds."""
        return self.literal.generation if self.literal else None

    @property
    def literal_validation(self) -> LiteralRequest | None:
        """The imported request for the score of a query."""
        return self.literal.validation if self.literal else None

    @property
    def literal_judging(self) -> LiteralJudging | None:
        """The imported request for a verdict."""
        return self.literal.judging if self.literal else None

    @property
    def can_generate(self) -> bool:
        """Whether models can be asked for queries."""
        return self.generation is not None or self.literal_generation is not None

    @property
    def can_validate(self) -> bool:
        """Whether models can be asked to score queries."""
        return self.validation is not None or self.literal_validation is not None

    @property
    def seeds(self) -> tuple[Seed, ...]:
        """The seed queries; none where the dimension is asked only from given tests."""
        if self.literal_generation is not None:
            return tuple(LiteralSeed(prompt=seed) for seed in self.literal_generation.seeds)
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


class LiteralRubric(Rubric):
    """A rubric with imported wording: its `system` counts with all its white space."""

    model_config = ConfigDict(str_strip_whitespace=False)

    literal: LiteralPrompts


class Themes(RubricPart):
    """The themes file: short subjects, one of which is drawn for each generation request.

    `lines` stands in place of `themes` where they are imported: lines of a text file with their line breaks.
    """

    themes: tuple[Text, ...] = ()
    lines: tuple[ExactText, ...] = ()
    fidelity: Fidelity | None = None

    @property
    def sha256(self) -> str:
        """Hex digest of the themes in their order."""
        return sha256("\n".join(self.shown).encode()).hexdigest()

    @property
    def shown(self) -> tuple[str, ...]:
        """The themes as models are shown them."""
        return self.lines or self.themes

    @model_validator(mode="after")
    def _is_one_list(self) -> Self:
        if len({"themes", "lines"} & self.model_fields_set) != 1:
            raise ValueError("a themes file has either `themes` or `lines`; write one of them")
        return self
