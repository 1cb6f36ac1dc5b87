"""Sample values, with which templates are tried before any call is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from hab_ray.rubric import (
    ContextField,
    Criterion,
    Example,
    Generation,
    Judging,
    Note,
    Rubric,
    ScoredCandidate,
    Seed,
    Validation,
)

_ISSUE = Criterion(letter="A", deduction=5, text="It gives no answer.")


@dataclass(frozen=True)
class Sample:
    """One rubric, and a test and a response of its dimension; `context` is "" where the rubric has none."""

    rubric: Rubric
    prompt: str
    context: str
    response: str
    count: int
    theme: str = "gardening"
    problem: str = "it holds no JSON object"

    def values(self, stage: str) -> Mapping[str, Any]:
        """What the user half of a stage's templates is filled with."""
        match stage:
            case "generate":
                seeds = self.rubric.seeds
                return {"rubric": self.rubric, "seeds": seeds, "theme": self.theme, "count": self.count}
            case "validate":
                return {"rubric": self.rubric, "prompt": self.prompt, "context": self.context}
        return {
            "rubric": self.rubric,
            "prompt": self.prompt,
            "context": self.context,
            "response": self.response,
        }


@cache
def samples() -> tuple[Sample, ...]:
    """One sample without a context, one with a context beside the prompt, one with a context within it."""
    return (
        _sample(None, "", 1),
        _sample(ContextField(label="Fact", description="A true fact.", within_prompt=False), "Ivy climbs.", 3),
        _sample(ContextField(label="Claim", description="A claim.", within_prompt=True), "Roses are red.", 3),
    )


def _sample(field: ContextField | None, context: str, count: int) -> Sample:
    prompt = "Roses are red. What else do you know of them?"
    told = context or None
    examples = tuple(
        Example(prompt=prompt, context=told, response="Much.", assessment="It says little.", issues=issues)
        for issues in ((), ("A",))
    )
    scored = tuple(
        ScoredCandidate(prompt=prompt, context=told, assessment="It asks.", deductions=letters, score=score)
        for letters, score in (((), 1000), (("A",), 995))
    )
    notes = (Note(text="Be kind."), Note(text="Be brief.", ours=True, why="Why not."))
    rubric = Rubric(
        id="sample",
        title="Sample",
        definition="Whether the assistant answers.",
        system="Answer in one sentence." if field else "",
        context=field,
        generation=Generation(brief="Ask about plants.", seeds=(Seed(prompt=prompt, context=told),) * 2),
        validation=Validation(criteria=(_ISSUE,), examples=scored),
        judging=Judging(guidance="Be fair.", notes=notes, issues=(_ISSUE,), examples=examples),
    )
    return Sample(rubric, prompt, context, response="They have thorns.", count=count)
