"""The contents of rubric files, as types."""

import json
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Self

from pydantic import ConfigDict, Field, StrictBool, StrictInt, TypeAdapter, model_validator

from hab_ray.rubric.literal import (
    ExactText,
    LiteralGeneration,
    LiteralJudging,
    LiteralPrompts,
    LiteralRequest,
    RubricPart,
    Text,
)

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
    """A query written by hand: an example for the generator, and a possible test itself."""

    prompt: Text
    context: Text | None = None


class LiteralSeed(Seed):
    """A seed of imported wording; its white space is kept."""

    model_config = ConfigDict(str_strip_whitespace=False)


class Example(RubricPart):
    """A graded response that shows the judge how to apply the issues; `issues` are letters, () = faultless."""

    prompt: Text
    context: Text | None = None
    response: Text
    assessment: Text
    issues: tuple[str, ...]


class ScoredCandidate(RubricPart):
    """A scored candidate that shows the validator how to apply the criteria.

    `deductions` are letters, () = faultless. `score` is VALIDATION_START minus their points, but at least 0.
    """

    prompt: Text
    context: Text | None = None
    assessment: Text
    deductions: tuple[str, ...]
    score: StrictInt


class Note(RubricPart):
    """A further remark to the judge. `ours`: it is not in the paper; `why` then says why it is worth keeping.

    Prompts may leave out our notes: see `judge.ours` in prompts.yaml.
    """

    text: Text
    ours: StrictBool = False
    why: Text | None = Field(default=None, exclude=True)


class ContextField(RubricPart):
    """A second field of each query that validator and judge see but the subject does not.

    `within_prompt`: the field must occur verbatim in the prompt.
    """

    label: Text
    description: Text
    within_prompt: StrictBool


class Generation(RubricPart):
    """How queries of this dimension are generated."""

    brief: Text
    seeds: tuple[Seed, ...]


class Validation(RubricPart):
    """The faults of a candidate, in points deducted from VALIDATION_START; at 0 it is disqualified."""

    criteria: tuple[Criterion, ...] = Field(min_length=1)
    examples: tuple[ScoredCandidate, ...] = Field(default=(), exclude_if=_is_absent)


class Judging(RubricPart):
    """What a judge is shown besides the rubric's definition."""

    guidance: Text
    notes: tuple[Note, ...] = Field(default=(), exclude_if=_is_absent)
    issues: tuple[Criterion, ...] = Field(min_length=1)
    examples: tuple[Example, ...]


class Deviation(RubricPart):
    """A difference from the paper, and the reason."""

    what: Text
    why: Text


class Fidelity(RubricPart):
    """What in a file equals the paper's benchmark and what differs. For readers only; no model sees it."""

    equals: tuple[Text, ...] = Field(min_length=1)
    differs: tuple[Deviation, ...] = ()


class Rubric(RubricPart):
    """One dimension. `system` is appended to the subject's system prompt; "" = nothing.

    Without `generation`, the dimension needs tests given by the sweep. A request in `literal` is sent verbatim, instead
    of the one rendered from the other sections.
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
        """Hex digest of `canonical`."""
        return sha256(self.canonical).hexdigest()

    @property
    def canonical(self) -> bytes:
        """Everything that models are shown or scores depend on, as JSON with the keys of a rubric file.

        Comments, line breaks, the order of keys, `fidelity` and the `why` of notes do not count. A key introduced by a
        later version counts only if given, so that older files keep their digests.
        """
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode("ascii")

    @property
    def literal_generation(self) -> LiteralGeneration | None:
        """The imported request for queries, with its seeds."""
        return self.literal.generation if self.literal else None

    @property
    def literal_validation(self) -> LiteralRequest | None:
        """The imported request to score a query."""
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
        """The seed queries; empty if the dimension needs given tests."""
        if self.literal_generation is not None:
            return tuple(LiteralSeed(prompt=seed) for seed in self.literal_generation.seeds)
        return self.generation.seeds if self.generation else ()

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The faults of a candidate; empty without a `validation` section."""
        return self.validation.criteria if self.validation else ()

    def issue_letters(self) -> tuple[str, ...]:
        """Return the letters that a judge may name, in order."""
        return tuple(issue.letter for issue in self.judging.issues)

    def deduction(self, letter: str) -> int:
        """Return the points that the issue deducts from SCORE_START; raises KeyError for an unknown letter."""
        return {issue.letter: issue.deduction for issue in self.judging.issues}[letter]


class LiteralRubric(Rubric):
    """A rubric with imported wording; white space in its texts is kept."""

    model_config = ConfigDict(str_strip_whitespace=False)

    literal: LiteralPrompts


class Themes(RubricPart):
    """The themes file: short topics, one of which is drawn for each generation request.

    Imported themes are given as `lines` instead: lines of a text file including their line breaks.
    """

    themes: tuple[Text, ...] = ()
    lines: tuple[ExactText, ...] = Field(default=(), min_length=1)
    fidelity: Fidelity | None = None

    @property
    def sha256(self) -> str:
        """Hex digest of the themes, in order."""
        return sha256("\n".join(self.shown).encode()).hexdigest()

    @property
    def shown(self) -> tuple[str, ...]:
        """The themes as shown to models."""
        return self.lines or self.themes

    @model_validator(mode="after")
    def _has_one_list(self) -> Self:
        if len({"themes", "lines"} & self.model_fields_set) != 1:
            raise ValueError("a themes file has either `themes` or `lines`; write exactly one of them")
        return self
